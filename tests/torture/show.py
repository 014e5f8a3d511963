"""Progress on a terminal: a bar per journal, with what was found so far. Quiet where nobody looks."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.torture.plan import Trial
from tests.torture.report import failed

EVERY = 15.0
"""Seconds between two lines where there is no terminal."""


class Show:
    def __init__(self, kinds: Sequence[str], trials: Sequence[Trial], before: Sequence[dict[str, Any]], quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._progress = Progress(
            TextColumn("{task.description:9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[kills]} kills, {task.fields[failures]} failures"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks = {}
        self._tallies = {kind: {"kills": 0, "failures": 0} for kind in kinds}
        for kind in kinds:
            total = sum(trial.kind == kind for trial in trials)
            self._tasks[kind] = self._progress.add_task(kind, total=total, kills=0, failures=0)
        self._done = 0
        self._said_at = time.monotonic()
        for said in before:
            self._count(said)

    def __enter__(self) -> "Show":
        self._running = False
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        self._line()

    def told(self, said: dict[str, Any]) -> None:
        if not self._running:
            # Only now: what forks must not have threads, and a moving bar is one.
            self._progress.start()
            self._running = True
        self._count(said)
        if failed(said):
            self._console.print(f"{said['trial']}: {said['wrongs'] or said['error']}", markup=False, highlight=False)
        if not self._console.is_terminal and time.monotonic() - self._said_at > EVERY:
            self._line()

    def _count(self, said: dict[str, Any]) -> None:
        kind = said["trial"].partition(":")[0]
        if kind not in self._tallies:
            return
        tally = self._tallies[kind]
        tally["kills"] += len(said["deaths"])
        tally["failures"] += failed(said)
        self._done += 1
        self._progress.update(self._tasks[kind], advance=1, **tally)

    def _line(self) -> None:
        self._said_at = time.monotonic()
        tallies = ", ".join(f"{kind}: {each['kills']} kills, {each['failures']} failures" for kind, each in self._tallies.items())
        print(f"{self._done} trials; {tallies}", file=sys.stderr, flush=True) if not self._console.quiet else None
