"""What stands in a journal, memory's or a stored one, read in the same way by whoever watches it."""

from typing import NamedTuple, Protocol

from faregate.core.claim_types import Claimant
from faregate.journals.memory import MemoryJournal
from faregate.journals.persistent import PersistentJournal
from faregate.journals.row_rules import Row
from faregate.journals.store import Record, may_be_removed
from tests.model.dict_store import DictStore
from tests.model.invariants import TransactionState

KEY = b"k" * 32
PEPPER = b"pepper"


class Line(NamedTuple):
    key: bytes
    fence: int
    lease_until: float
    owed: bool
    state: str
    reason: str
    redelivered: int
    was_settled: bool


class JournalView(Protocol):
    def line(self, transaction_id: str) -> Line | None: ...

    def lines(self) -> list[Line]: ...

    def key_of(self, proof: str) -> bytes: ...


class MemoryView:
    def __init__(self, journal: MemoryJournal) -> None:
        journal._pepper = PEPPER
        self._journal = journal

    def line(self, transaction_id: str) -> Line | None:
        row = self._journal._rows.find(self._journal._transactions.get(transaction_id, b""))
        return None if row is None else _line_of(row)

    def lines(self) -> list[Line]:
        return [_line_of(row) for row in self._journal._rows.read_all()]

    def key_of(self, proof: str) -> bytes:
        return self._journal._hash(proof)


class StoredView:
    def __init__(self, journal: PersistentJournal, shelf: DictStore) -> None:
        self._journal = journal
        self._store = shelf

    def line(self, transaction_id: str) -> Line | None:
        record = self._store.rows.get(self._store.transactions.get(transaction_id, b""))
        # A row whose time is over is as good as forgotten: the store removes it with some later write.
        if record is None or may_be_removed(record, self._journal._clock()):
            return None
        return _line_in(record)

    def lines(self) -> list[Line]:
        return [_line_in(record) for record in self._store.rows.values()]

    def key_of(self, proof: str) -> bytes:
        return next(iter(self._journal._keyring.lookup_keys(proof, Claimant(""))))


def _line_of(row: Row) -> Line:
    owed = row.expires_at is None
    return Line(
        row.key,
        row.fence,
        row.lease_until,
        owed,
        row.state.value,
        row.reason,
        row.redelivered,
        row.was_settled,
    )


def _line_in(record: Record) -> Line:
    return Line(
        record["key"],
        record["fence"],
        record["lease_until"],
        record["expires_at"] is None,
        record["state"],
        record["reason"],
        record["redelivered"],
        record["forget_at"] is not None,
    )


def standing(books: JournalView, transaction_id: str, proof: str) -> TransactionState:
    line = books.line(transaction_id)
    if line is None:
        return TransactionState.NOBODYS
    return TransactionState.OWN if line.key == books.key_of(proof) else TransactionState.OTHERS
