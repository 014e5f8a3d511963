"""A journal that outlives its process and is shared by several: the rules, over any `Shelf`.

It reads a record, lets the row decide (`faregate.journals.row`), and writes on the condition that nobody
wrote in between; else it reads anew, and the row decides again. So processes need no common lock.
"""

import secrets
import time
from collections.abc import Callable, Sequence

from faregate.errors import JournalError, JournalUnreadable
from faregate.journals.codec import Codec
from faregate.journals.room import Room
from faregate.journals.row import Row, State, size_of
from faregate.journals.seal import Keyring
from faregate.journals.shelf import Record, Shelf, TransactionTaken
from faregate.journals.terms import DEFAULT_TERMS, Terms
from faregate.journals.threaded import Run, ThreadedJournal, in_a_thread
from faregate.model import Outcome
from faregate.ports import Journal
from faregate.records import Again, Claim, Entry, Fresh, Holding, Owed, Ticket

ATTEMPTS = 64


class StoredJournal:
    """Rows on a shelf, sealed. Safe to share between threads and processes; its calls block.

    `keys` are 32 random bytes each, newest first. `namespace` keeps the proofs of one environment and
    service apart from another's. At about `max_rows` rows, or `max_bytes` of results, new claims are
    refused. `clock` is one that all who share the shelf agree on.
    """

    def __init__(
        self,
        shelf: Shelf,
        *,
        keys: Sequence[bytes],
        namespace: str = "",
        terms: Terms = DEFAULT_TERMS,
        max_rows: int = 1_000_000,
        max_bytes: int = 4 * 1024**3,
        clock: Callable[[], float] = time.time,
        run: Run = in_a_thread,
    ) -> None:
        self._shelf = shelf
        self._keyring = Keyring(keys, namespace)
        self._codec = Codec(self._keyring)
        self._terms = terms
        self._room = Room(shelf, max_rows, max_bytes)
        self._clock = clock
        self._run = run
        self._unreadable = ""

    def awaiting(self) -> Journal:
        """This journal for event loops."""
        return ThreadedJournal(self, self._run)

    def disconnect(self) -> None:
        """Close what is open; the next call opens it anew."""
        self._shelf.disconnect()

    # Claims

    def claim(self, proof: str, request: str) -> Claim:
        names = self._keyring.names(proof, request)
        for _ in range(ATTEMPTS):
            now = self._clock()
            record = self._shelf.find(list(names))
            if record is None:
                claim = self._claimed_first(proof, names, now)
            elif record["expires_at"] is not None and record["expires_at"] <= now:
                self._shelf.delete(record["key"], record["stamp"])
                claim = None
            else:
                claim = self._claimed_again(record, names[record["key"]], now)
            if claim is not None:
                return claim
        raise _crowded()

    def _claimed_first(self, proof: str, names: dict[bytes, str], now: float) -> Claim | None:
        self._room.check(now)
        key, request = next(iter(names.items()))
        row = Row.claimed(key, request, proof, _never_used(), now, self._terms)
        if not self._shelf.insert(self._codec.pack(row, _never_used()), list(names), now):
            return None
        self._room.add(1, 0)
        return Fresh(Ticket(key, row.fence))

    def _claimed_again(self, record: Record, request: str, now: float) -> Claim | None:
        row = self._codec.open(record)
        claim = row.claimed_again(request, now, self._terms, _never_used())
        if isinstance(claim, Fresh | Owed | Again) and not self._replace(record, row):
            return None
        return claim

    # What is owed

    def due(self) -> Entry | None:
        """Rows that cannot be opened are put off, so that they hold up no other; told when none is left."""
        while (record := self._shelf.take_due(now := self._clock(), self._taking(now))) is not None:
            try:
                return self._codec.open(record).entry()
            except JournalUnreadable as error:
                self._unreadable = str(error)
                self._put_off(record, now)
        if self._unreadable:
            told, self._unreadable = self._unreadable, ""
            raise JournalUnreadable(told)
        return None

    def _taking(self, now: float) -> dict[str, float]:
        until = now + self._terms.completion_lease
        return {"fence": _never_used(), "lease_until": until, "stamp": _never_used()}

    def _put_off(self, record: Record, now: float) -> None:
        until = {"lease_until": now + self._terms.longest_pause, "stamp": _never_used()}
        self._shelf.replace(record["key"], record["stamp"], until, False)

    def holdings(self, limit: int) -> list[Holding]:
        """Rows that owe something, from the oldest on."""
        return [_holding(record) for record in self._shelf.owed(limit)]

    def holding(self, transaction_id: str) -> Holding | None:
        record = self._shelf.find_transaction(transaction_id)
        return None if record is None or record["expires_at"] is not None else _holding(record)

    def take(self, transaction_id: str) -> Entry | None:
        """The row of this transaction, due or not, stuck or not; None while somebody else has it."""
        record, now = self._shelf.find_transaction(transaction_id), self._clock()
        if record is None or record["expires_at"] is not None or record["lease_until"] > now:
            return None
        row = self._codec.open(record)
        row.take(now + self._terms.completion_lease, _never_used())
        return row.entry() if self._replace(record, row) else None

    # Writes under a ticket

    def start(self, ticket: Ticket, transaction_id: str, revision_id: str, seconds: float) -> bool:
        until = self._clock() + seconds + self._terms.completion_lease

        def change(row: Row) -> bool:
            started = row.start(ticket, transaction_id, revision_id, until)
            return started or row.learn(transaction_id, revision_id, waits=False)

        try:
            row, changed = self._change(ticket, change, durable=True)
        except TransactionTaken:
            return False
        _check_known(row, transaction_id)
        return changed and row is not None and row.state is State.RUNNING

    def wait(self, ticket: Ticket, transaction_id: str, revision_id: str) -> None:
        now, terms = self._clock(), self._terms

        def change(row: Row) -> bool:
            waits = row.wait(ticket, transaction_id, revision_id, now, terms)
            return waits or row.learn(transaction_id, revision_id, waits=True)

        try:
            row, _ = self._change(ticket, change, durable=True)
        except TransactionTaken:
            self.drop(ticket)
        else:
            _check_known(row, transaction_id)

    def decide(self, ticket: Ticket, outcome: Outcome) -> bool:
        now, terms = self._clock(), self._terms
        _, decided = self._change(ticket, lambda row: row.decide(ticket, outcome, now, terms), durable=True)
        if decided:
            self._room.add(0, size_of(outcome))
        return decided

    def hold(self, ticket: Ticket) -> bool:
        now, terms = self._clock(), self._terms
        row, _ = self._change(ticket, lambda row: row.hold(ticket, now, terms))
        return row is None or row.state is not State.STUCK

    def stick(self, ticket: Ticket, reason: str) -> None:
        now = self._clock()
        self._change(ticket, lambda row: row.stick(ticket, reason, now))

    def release(self, ticket: Ticket, payment_response: str, receipt: str, delivered: bool) -> None:
        now, terms = self._clock(), self._terms
        self._change(ticket, lambda row: row.release(payment_response, receipt, delivered, now, terms))

    def close(self, ticket: Ticket, paid: bool) -> None:
        now, terms = self._clock(), self._terms
        self._change(ticket, lambda row: row.close(ticket, paid, now, terms))

    def drop(self, ticket: Ticket) -> bool:
        for _ in range(ATTEMPTS):
            record, now = self._shelf.find([ticket.key]), self._clock()
            if record is None:
                return False
            row = self._codec.open(record)
            unknown = row.state is State.CLAIMED
            if row.may_be_forgotten(ticket):
                done = self._shelf.delete(record["key"], record["stamp"])
            elif row.drop(ticket, now, self._terms):
                done = self._replace(record, row)
            else:
                return False
            if done:
                return unknown
        raise _crowded()

    def _change(
        self, ticket: Ticket, change: Callable[[Row], bool], *, durable: bool = False
    ) -> tuple[Row | None, bool]:
        """The row as it stands then, if there is one, and whether `change` changed it."""
        for _ in range(ATTEMPTS):
            record = self._shelf.find([ticket.key])
            if record is None:
                return None, False
            row = self._codec.open(record)
            if not change(row):
                return row, False
            if self._replace(record, row, durable):
                return row, True
        raise _crowded()

    def _replace(self, record: Record, row: Row, durable: bool = False) -> bool:
        after = self._codec.pack(row, _never_used(), record)
        changes = {name: value for name, value in after.items() if value != record.get(name)}
        return self._shelf.replace(record["key"], record["stamp"], changes, durable)


def _check_known(row: Row | None, transaction_id: str) -> None:
    if row is None or row.transaction_id != transaction_id:
        raise JournalError("the row of this payment is gone, or knows of another transaction")


def _holding(record: Record) -> Holding:
    """Of what is not sealed: people may look at a journal without its keys."""
    return Holding(
        record["transaction_id"] or "",
        record["revision_id"],
        record["state"],
        record["reason"],
        record["since"],
        max(record["lease_until"], record["due_at"]),
        record["holds_so_far"],
        record["size"],
    )


def _never_used() -> int:
    """For fences and stamps: even a row that is forgotten and made anew has no earlier one."""
    return secrets.randbits(63)


def _crowded() -> JournalError:
    return JournalError(f"others wrote the same journal row {ATTEMPTS} times in between")
