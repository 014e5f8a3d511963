"""Limit the rows and bytes of a store: measured now and then, and counted in between."""

from faregate.errors import JournalFull
from faregate.journals.store import RowStore

MEASURE_SECONDS = 10.0
FULL_SECONDS = 1.0
"""How long a full journal refuses before it is measured again: to measure costs more than to refuse."""
PURGE_BATCH = 1000
"""Expired rows removed in one transaction: few enough that other writers get their turn."""
MAX_PURGE_BATCHES = 10
"""Batches in one sweep; the rest is left to the next one."""


class Quota:
    """A limit for all processes that share a store.

    Each process counts its own rows, so together they may exceed it by what they add in `MEASURE_SECONDS`.
    """

    def __init__(self, store: RowStore, max_rows: int, max_bytes: int) -> None:
        self._store = store
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._rows = self._bytes = 0
        # The first claim measures, as if the last measurement were old.
        self._measured_at = -MEASURE_SECONDS
        self._full_at = self._forgot_none_at = -FULL_SECONDS

    def add(self, rows: int, size: int) -> None:
        self._rows += rows
        self._bytes += size

    def free(self, rows: int) -> None:
        """Count deleted rows: as many may be added again at once."""
        self._rows -= rows
        self._full_at = -FULL_SECONDS

    def purge(self, now: float) -> None:
        """Delete expired rows, and results whose redelivery window is over."""
        for _ in range(MAX_PURGE_BATCHES):
            if self._store.drop_results(now, PURGE_BATCH) < PURGE_BATCH:
                break
        for _ in range(MAX_PURGE_BATCHES):
            deleted = self._store.purge(now, PURGE_BATCH)
            if deleted:
                self.free(deleted)
            if deleted < PURGE_BATCH:
                return

    def has_room(self, now: float) -> bool:
        """Whether it was measured lately, and is not full: `check`, which may wait, need not be called."""
        # The lower bound is for a clock that was set back: without it, nothing would be measured until the
        # old time.
        return self._measured_at <= now < self._measured_at + MEASURE_SECONDS and not self._is_full()

    def check(self, now: float) -> None:
        """Raises `JournalFull`, if deleting expired rows does not help."""
        if self._full_at <= now < self._full_at + FULL_SECONDS:
            raise self._error()
        if not self._measured_at <= now < self._measured_at + MEASURE_SECONDS:
            self._measure(now)
        if self._is_full():
            # Expired rows and results count until they are deleted.
            self._store.drop_results(now, PURGE_BATCH)
            self._store.purge(now, PURGE_BATCH)
            self._measure(now)
        if self._is_full():
            self._full_at = now
            raise self._error()

    def make_room(self, now: float) -> bool:
        """Forget delivered payments if there are too many rows: a new payment matters more.

        Return whether there were any.
        """
        has_nothing_to_forget = self._forgot_none_at <= now < self._forgot_none_at + FULL_SECONDS
        if self._rows < self._max_rows or has_nothing_to_forget:
            return False
        forgotten = self._store.forget_delivered(PURGE_BATCH)
        if forgotten:
            self.free(forgotten)
        else:
            self._forgot_none_at = now
        return forgotten > 0

    def _error(self) -> JournalFull:
        return JournalFull(f"the journal is full ({self._rows} rows, {self._bytes} bytes of results)")

    def _measure(self, now: float) -> None:
        self._rows, self._bytes = self._store.measure()
        self._measured_at = now

    def _is_full(self) -> bool:
        return self._rows >= self._max_rows or self._bytes >= self._max_bytes
