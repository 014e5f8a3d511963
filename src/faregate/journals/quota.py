"""Limit the rows and bytes of a store: measured now and then, and counted in between."""

from faregate.errors import JournalFull
from faregate.journals.store import RowStore

MEASURE_SECONDS = 10.0
FULL_SECONDS = 1.0
"""A journal that is full stays so for this long: looking again costs it more than refusing."""
PURGE = 1000
"""Expired rows removed at once, so that others can write in between."""
PURGES = 10
"""How often in a row a sweep does so; what is left is the next sweep's."""


class Quota:
    """A bound that several processes keep to, each within what the others add in `MEASURE_SECONDS`."""

    def __init__(self, store: RowStore, max_rows: int, max_bytes: int) -> None:
        self._store = store
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._rows = self._bytes = 0
        self._measured_at = -MEASURE_SECONDS
        self._full_at = -FULL_SECONDS

    def add(self, rows: int, size: int) -> None:
        self._rows += rows
        self._bytes += size

    def free(self, rows: int) -> None:
        """Count rows that were forgotten: there is room for as many again."""
        self._rows -= rows
        self._full_at = -FULL_SECONDS

    def purge(self, now: float) -> None:
        """Remove expired rows, the results in them among them."""
        for _ in range(PURGES):
            removed = self._store.purge(now, PURGE)
            if removed:
                self.free(removed)
            if removed < PURGE:
                return

    def check(self, now: float) -> None:
        """Raises `JournalFull`, if forgetting what has expired does not help."""
        if self._full_at <= now < self._full_at + FULL_SECONDS:
            raise self._refusal()
        if not self._measured_at <= now < self._measured_at + MEASURE_SECONDS:
            self._measure(now)
        if self._is_full():
            self._store.purge(now, PURGE)
            self._measure(now)
        if self._is_full():
            self._full_at = now
            raise self._refusal()

    def _refusal(self) -> JournalFull:
        return JournalFull(f"the journal is full ({self._rows} rows, {self._bytes} bytes of results)")

    def _measure(self, now: float) -> None:
        self._rows, self._bytes = self._store.measure()
        self._measured_at = now

    def _is_full(self) -> bool:
        return self._rows >= self._max_rows or self._bytes >= self._max_bytes
