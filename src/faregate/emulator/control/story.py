"""The transactions of one environment as a page follows them: all are summed, the newest are shown. Pure."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from faregate.emulator.control.picture import counts
from faregate.emulator.control.tally import Tally
from faregate.service.records import FINAL, TransactionRecord
from faregate.service.state import Books

SHOWN: Final = 200
"""Transactions that a page has."""
PIECE: Final = 2_000
"""Transactions that are taken in at one look."""


class Story:
    """Begins with the first transaction. `tally` is of all that ended."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.tally = Tally()
        self.shown: deque[TransactionRecord] = deque(maxlen=SHOWN)
        self._taken = 0
        self._open: dict[str, TransactionRecord] = {}
        self._counts: dict[str, int] = {}
        self._marks: dict[str, tuple[object, ...]] = {}

    def goes_on(self, books: Books) -> bool:
        """False if these are not the books it began with, or a part of it never happened."""
        if books is not self.books or len(books.transactions) < self._taken:
            return False
        return all(books.transactions.get(one.id) is one for one in list(self.shown)[-1:])

    def take_in(self, now: datetime) -> bool:
        """The next piece; False if that was not all."""
        piece = self.books.register.between(self._taken, self._taken + PIECE, now)
        self._taken += len(piece)
        self.shown.extend(piece)
        self._open.update((record.id, record) for record in piece)
        self._close(counts(self.books, now), bool(piece))
        return len(piece) < PIECE

    def moved(self) -> list[TransactionRecord]:
        """Those shown that are not as they were when this was last asked."""
        marks = {record.id: _mark(record) for record in self.shown}
        found = [record for record in self.shown if self._marks.get(record.id) != marks[record.id]]
        self._marks = marks
        return found

    def shown_of(self, identifiers: Iterable[str]) -> list[TransactionRecord]:
        """Those of these that are shown."""
        return [self.books.transactions[one] for one in identifiers if one in self._marks]

    def _close(self, now: dict[str, int], more: bool) -> None:
        """No status changes without changing how many there are of each."""
        if now == self._counts and not more:
            return
        self._counts = now
        for record in [one for one in self._open.values() if one.status in FINAL]:
            del self._open[record.id]
            terms, settled = record.sale.terms, record.settled is not None
            self.tally.add(record.history[-1][0], terms.token.symbol, terms.amount if settled else None)


def _mark(record: TransactionRecord) -> tuple[object, ...]:
    return len(record.history), record.reads, record.plan, record.accepted is None
