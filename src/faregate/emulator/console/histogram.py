"""Outcomes and revenue over time, in a bounded number of intervals. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

MAX_INTERVALS: Final = 90
"""Intervals from the first outcome to the last."""
WIDTHS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
"""Widths in seconds; after the last one, each is twice as wide."""


@dataclass(slots=True)
class Bin:
    """Outcomes of one interval. `settled` is in atomic units, by asset."""

    succeeded: int = 0
    failed: int = 0
    settled: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, other: "Bin") -> None:
        self.succeeded += other.succeeded
        self.failed += other.failed
        for asset, atomic in other.settled.items():
            self.settled[asset] = self.settled.get(asset, 0) + atomic


class Histogram:
    """Intervals grow wider as time passes, so that the whole history always fits."""

    def __init__(self) -> None:
        self.seconds = WIDTHS[0]
        self.total = Bin()
        self._intervals: dict[int, Bin] = {}
        # Later and earlier than any time, so that the first payment replaces both.
        self._first, self._last = 1 << 62, -(1 << 62)

    def __iter__(self) -> Iterator[tuple[int, Bin]]:
        """Yield the non-empty intervals with their start (Unix time), oldest first."""
        return ((index * self.seconds, self._intervals[index]) for index in sorted(self._intervals))

    def add(self, at: datetime, asset: str, settled: int | None) -> None:
        """Add a payment that ended: the atomic units it settled, or None if it failed."""
        interval = Bin(failed=1) if settled is None else Bin(succeeded=1, settled={asset: settled})
        self.total.add(interval)
        second = int(at.timestamp())
        self._first, self._last = min(self._first, second), max(self._last, second)
        self._merge(second, interval)
        while self._last // self.seconds - self._first // self.seconds >= MAX_INTERVALS:
            self._widen()

    def _merge(self, second: int, interval: Bin) -> None:
        self._intervals.setdefault(second // self.seconds, Bin()).add(interval)

    def _widen(self) -> None:
        narrow = list(self)
        self.seconds = next((width for width in WIDTHS if width > self.seconds), self.seconds * 2)
        self._intervals = {}
        for second, interval in narrow:
            self._merge(second, interval)
