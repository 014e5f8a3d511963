"""Progress on a terminal: a bar per journal, with what was found so far. Elsewhere a line now and then."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tests.crash.points.plan import Trial
from tests.crash.points.report import failed, kind_of

EVERY = 15.0
"""Seconds between two lines where there is no terminal."""
_COLUMNS = (
    TextColumn("{task.description:9}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("{task.fields[kills]} kills, {task.fields[failures]} failures"),
    TimeRemainingColumn(),
)


class ProgressDisplay:
    """`before` is what an earlier run of the same campaign gave."""

    def __init__(self, trials: Sequence[Trial], before: Sequence[dict[str, Any]], quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._progress = Progress(*_COLUMNS, console=self._console, disable=not self._console.is_terminal)
        self._tasks: dict[str, TaskID] = {}
        for kind in dict.fromkeys(trial.kind for trial in trials):
            total = sum(trial.kind == kind for trial in trials)
            self._tasks[kind] = self._progress.add_task(kind, total=total, kills=0, failures=0)
        self._said_at = time.monotonic()
        for said in before:
            self._count(said)

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def told(self, said: dict[str, Any]) -> None:
        # Not before the first trial is over: a moving bar is a thread, and whoever forks must have none.
        self._progress.start()
        self._count(said)
        if failed(said):
            told = said["wrongs"] or said["error"]
            self._console.print(f"{said['trial']}: {told}", markup=False, highlight=False)
        if not self._console.is_terminal and time.monotonic() > self._said_at + EVERY:
            self._said_at = time.monotonic()
            self._line()

    def _count(self, said: dict[str, Any]) -> None:
        task = self._tasks.get(kind_of(said))
        if task is not None:
            fields = self._progress.tasks[task].fields
            kills, failures = fields["kills"] + len(said["deaths"]), fields["failures"] + failed(said)
            self._progress.update(task, advance=1, kills=kills, failures=failures)

    def _line(self) -> None:
        for task in self._progress.tasks:
            kills, failures = task.fields["kills"], task.fields["failures"]
            told = f"{task.description}: {task.completed} of {task.total}, {kills} kills, {failures} failures"
            self._console.print(told, markup=False, highlight=False)
