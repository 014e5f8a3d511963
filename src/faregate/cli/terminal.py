"""Format the output of commands. Only a terminal gets colours, its own width and progress."""

import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Final, Self, TextIO

from faregate.errors import CommandError

_GAP: Final = 2
_STYLES: Final = {
    "succeeded": "green",
    "authorized": "cyan",
    "settling": "yellow",
    "reconciling": "yellow",
    "failed": "red",
}
_SHOW_EVERY: Final = 0.25


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. `rank` 0 is always shown; in a narrow terminal the highest rank goes first."""

    head: str
    rank: int = 0
    align_right: bool = False


def is_terminal(stream: TextIO | None) -> bool:
    """Whether people read this stream. A process without a console has None for it."""
    return stream is not None and stream.isatty()


def is_stdout_terminal() -> bool:
    return is_terminal(sys.stdout)


def prints_json(json: bool, text: bool) -> bool:
    """Return whether a command prints JSON: as its options say, else in a pipe. Raises `CommandError`."""
    if json and text:
        raise CommandError("Use either --json or --text.")
    return json or not (text or is_stdout_terminal())


def has_colours() -> bool:
    """Whether stdout shows colours: a terminal, without NO_COLOR (https://no-color.org) and not `dumb`."""
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def get_width() -> int:
    return shutil.get_terminal_size().columns


def clean(text: str) -> str:
    """Make text of the service safe to print: one line, without control characters."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def format_table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Format rows in aligned columns, below a head if there is one."""
    lines = [head, *rows] if head else list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def format_columns(rows: Sequence[Sequence[str]], columns: Sequence[Column]) -> str:
    """Format a table to fit the terminal where possible: with rich if it is installed, else plain."""
    rows = [[clean(text) for text in row] for row in rows]
    chosen = _choose_columns(rows, columns, get_width())
    heads = [columns[index] for index in chosen]
    body = [[row[index] for index in chosen] for row in rows]
    return _format_rich(body, heads) or format_table(body, [column.head for column in heads])


def _choose_columns(rows: Sequence[Sequence[str]], columns: Sequence[Column], width: int) -> list[int]:
    """Choose the columns that fit, by index. An empty column with a rank is left out."""
    widths = [
        max(len(column.head), *(len(row[index]) for row in rows)) for index, column in enumerate(columns)
    ]
    chosen = [
        index
        for index, column in enumerate(columns)
        if not column.rank or any(row[index] not in ("", "-") for row in rows)
    ]
    while sum(widths[index] + _GAP for index in chosen) - _GAP > width:
        last = max(chosen, key=lambda index: (columns[index].rank, index))
        if not columns[last].rank:
            break
        chosen.remove(last)
    return chosen


def _format_rich(rows: Sequence[Sequence[str]], columns: Sequence[Column]) -> str:
    """Format a table with rich. Returns an empty string without rich or without colours."""
    if not has_colours():
        return ""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return ""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.head, justify="right" if column.align_right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in row))
    # Wide enough for every column that was chosen: an id that is cut short cannot be copied.
    width = max(get_width(), sum(max(map(len, column)) + _GAP for column in zip(*rows, strict=True)))
    output = StringIO()
    Console(file=output, force_terminal=True, width=width, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in output.getvalue().rstrip("\n").split("\n"))


def style(text: str, code: str) -> str:
    """Style text with an SGR code, such as `1` for bold, where colours are shown."""
    return f"\x1b[{code}m{text}\x1b[0m" if has_colours() else text


class Progress:
    """Shows a growing number on stderr, if that is a terminal, while the block runs; none for short work."""

    def __init__(self, noun: str, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._noun = noun
        self._of_total = "" if total is None else f" of {total:,}"
        self._clock = clock
        self._shown_at = clock() if is_terminal(sys.stderr) else math.inf
        self._is_shown = False

    def __call__(self, number: int) -> None:
        if self._clock() - self._shown_at >= _SHOW_EVERY:
            self._shown_at, self._is_shown = self._clock(), True
            self._print(f"  {number:,}{self._of_total} {self._noun}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._print("")

    def _print(self, text: str) -> None:
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def format_duration(seconds: float) -> str:
    """Format a duration in its one or two largest units: `12s`, `4m`, `3h 5m`, `2d 4h`."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if not minutes:
        return f"{whole}s"
    if not hours:
        return f"{minutes}m"
    return f"{hours}h {minutes % 60}m" if not days else f"{days}d {hours % 24}h"


def format_size(size: int) -> str:
    """Format a number of bytes: `56 B`, `1.2 kB`, `3.4 MB`."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def format_moment(seconds: float) -> str:
    """Format a POSIX time as ISO 8601 in UTC: `2026-01-31T12:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def count(number: int, noun: str) -> str:
    """Format a number with its noun: `1 row`, `2 rows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
