"""An index that counts and pages transactions by status, as of any moment.

The cost of a list must not grow with the number of transactions. So the records are divided into blocks,
large blocks into smaller ones. For each status a block keeps two sorted lists: when its records took the
status, and when they lost it. Up to a moment, the difference of their lengths is how many had the status
then. A page is found by skipping whole blocks.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

BLOCKS: Final = (32_768, 1_024, 32)
"""Records in a block, from the largest kind to the smallest. Each is a multiple of the next."""


class TimedRecord(Protocol):
    """A record that can be indexed. `number` and `created_at` never decrease from one to the next."""

    @property
    def number(self) -> int: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def history(self) -> Sequence[tuple[datetime, str]]: ...
    def status_at(self, moment: datetime, /) -> str: ...


R = TypeVar("R", bound=TimedRecord)


@dataclass(slots=True)
class _StatusTimes:
    """When the records of one block took a status and when they lost it; both sorted."""

    taken: list[datetime] = field(default_factory=list[datetime])
    lost: list[datetime] = field(default_factory=list[datetime])

    def at(self, moment: datetime) -> int:
        return bisect_right(self.taken, moment) - bisect_right(self.lost, moment)


class TemporalIndex(Generic[R]):
    """Lists records as of any moment. Call `add` for every new record, and `update` for every change of
    status.

    Up to the size of one smallest block, records are simply scanned: most payers pay only a few times.
    """

    def __init__(self, blocks: tuple[int, ...] = BLOCKS) -> None:
        self._blocks = blocks
        self._records: list[R] = []
        self._tallies: dict[tuple[int, int, str], _StatusTimes] = {}

    def add(self, record: R) -> None:
        """Add a record with its history; `ValueError` if it is not the newest."""
        if self._records and record.number <= self._records[-1].number:
            raise ValueError(f"transaction number {record.number} comes after {self._records[-1].number}")
        self._records.append(record)
        if self._large:
            # With the record that makes the list large, all before it are counted, too.
            first = len(self._records) - 1 if self._tallies else 0
            for position in range(first, len(self._records)):
                self._tell(position)

    def update(self, record: R, before: str, after: str, at: datetime) -> None:
        """Note that the record changed its status."""
        if self._large:
            position = bisect_left(self._records, record.number, key=lambda numbered: numbered.number)
            self._change(position, before, after, at)

    def newest(self, moment: datetime) -> R | None:
        """Return the last record created by this moment."""
        count = self._count_until(moment)
        return self._records[count - 1] if count else None

    def count(self, moment: datetime, status: str | None = None) -> int:
        """Count the records at this moment, of this status if one is given."""
        count = self._count_until(moment)
        if status is None:
            return count
        if not self._large:
            return sum(record.status_at(moment) == status for record in self._records[:count])
        size = self._blocks[0]
        return sum(self._count_in_block(size, block, status, moment) for block in range(-(-count // size)))

    def between(self, start: int, stop: int, moment: datetime, status: str | None = None) -> list[R]:
        """Return the records that `count` counts, oldest first, from position `start` to before `stop`."""
        count = self._count_until(moment)
        if status is None:
            return self._records[start : min(stop, count)]
        sizes = self._blocks if self._large else ()
        return list(islice(self._iter_with_status(sizes, 0, count, start, status, moment), stop - start))

    def _iter_with_status(
        self, sizes: tuple[int, ...], first: int, end: int, skip: int, status: str, moment: datetime
    ) -> Iterator[R]:
        """Iterate over records of this status in positions `first` to `end`, without the first `skip`."""
        if not sizes:
            fitting = (record for record in self._records[first:end] if record.status_at(moment) == status)
            yield from islice(fitting, skip, None)
            return
        for begin in range(first, end, sizes[0]):
            held = self._count_in_block(sizes[0], begin // sizes[0], status, moment)
            if held > skip:
                inside = min(begin + sizes[0], end)
                yield from self._iter_with_status(sizes[1:], begin, inside, skip, status, moment)
            skip = max(0, skip - held)

    @property
    def _large(self) -> bool:
        return len(self._records) > self._blocks[-1]

    def _count_until(self, moment: datetime) -> int:
        return bisect_right(self._records, moment, key=lambda record: record.created_at)

    def _count_in_block(self, size: int, block: int, status: str, moment: datetime) -> int:
        tally = self._tallies.get((size, block, status))
        return 0 if tally is None else tally.at(moment)

    def _tell(self, position: int) -> None:
        before = None
        for at, status in self._records[position].history:
            self._change(position, before, status, at)
            before = status

    def _change(self, position: int, before: str | None, after: str, at: datetime) -> None:
        for size in self._blocks:
            block = position // size
            insort(self._find_times(size, block, after).taken, at)
            if before is not None:
                insort(self._find_times(size, block, before).lost, at)

    def _find_times(self, size: int, block: int, status: str) -> _StatusTimes:
        key = size, block, status
        times = self._tallies.get(key)
        if times is None:
            times = self._tallies[key] = _StatusTimes()
        return times
