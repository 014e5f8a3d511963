"""What the commands of campaigns share: arguments, progress, and a run of one in a test."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.preloaded import run_preloaded

ROOT = Path(__file__).resolve().parents[2]
EVERY = 15.0
"""Seconds between two lines of progress where there is no terminal."""


def make_parser(command: str, summary: str | None) -> argparse.ArgumentParser:
    """Of `scripts/COMMAND`, with the option that all have. The first line of `summary` is shown as help."""
    description = (summary or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog=f"scripts/{command}", description=description)
    parser.add_argument("--json", action="store_true", help="what was found as JSON, and nothing else")
    return parser


def choose(text: str, known: Sequence[str]) -> list[str]:
    """The names in a list with commas. Exits where one is unknown."""
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"there is no {unknown[0]!r}: {', '.join(known)}")
    return names


class Progress:
    """On a terminal one line that changes; elsewhere a line now and then."""

    def __init__(self, label: str = "", *, quiet: bool = False) -> None:
        self._label = label
        self._quiet = quiet
        self._began = self._shown_at = time.monotonic()
        self._changes = sys.stderr.isatty()

    def show(self, text: str, part: float = 0.0) -> None:
        """`part` is how much is done, from 0 to 1; with it, the time that is left is shown."""
        now = time.monotonic()
        if self._quiet or not (self._changes or now - self._shown_at >= EVERY):
            return
        self._shown_at, spent = now, now - self._began
        left = f", {spent / part - spent:.0f} s left" if part else ""
        self._print(f"{self._label}{spent:.0f} s{left}: {text}", stays=not self._changes)

    def keep(self, text: str) -> None:
        """A line that stays, quiet or not."""
        self._print(text, stays=True)

    def close(self) -> None:
        """Leave the line that changes."""
        if self._changes and not self._quiet:
            print(file=sys.stderr)

    def _print(self, text: str, *, stays: bool) -> None:
        clear = "\r\033[K" if self._changes else ""
        print(f"{clear}{text}", end="\n" if stays else "", file=sys.stderr, flush=True)


def run_campaign(module: str, *arguments: str) -> tuple[int, Any]:
    """Its exit code and what it found. In a process of its own, which has no threads when it forks."""
    run = run_preloaded(["-m", module, "--json", *arguments], dict(os.environ), ROOT, 600)
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)
