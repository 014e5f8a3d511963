"""Format what commands print: tables, durations, sizes and moments."""

from collections.abc import Sequence
from datetime import UTC, datetime


def format_table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Rows of cells in aligned columns, below a head if there is one."""
    lines = [head, *rows] if head else list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def format_duration(seconds: float) -> str:
    """The two coarsest units: `12s`, `4m`, `3h 5m`, `2d 4h`."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if not minutes:
        return f"{whole}s"
    if not hours:
        return f"{minutes}m"
    return f"{hours}h {minutes % 60}m" if not days else f"{days}d {hours % 24}h"


def format_size(size: int) -> str:
    """A number of bytes: `56 B`, `1.2 kB`, `3.4 MB`."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def format_moment(seconds: float) -> str:
    """A POSIX time as ISO 8601 in UTC: `2026-01-31T12:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 row`, `2 rows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
