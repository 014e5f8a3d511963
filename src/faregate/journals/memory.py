"""The journal of one process. For tests and test keys: it forgets when the process ends.

It refuses new claims when full rather than forget a row that may still be owed something.
"""

import heapq
import hmac
import itertools
import math
import secrets
import threading
import time
from collections.abc import Callable

from faregate.core.credentials import hash_credential
from faregate.errors import JournalError, JournalFull
from faregate.journals.row import Fingerprint, Holder, Row, State, size_of
from faregate.journals.policy import DEFAULT_TERMS, Terms
from faregate.core.models import Outcome
from faregate.core.claims import Again, Claim, Claimant, Entry, Fresh, Holding, Ticket


class MemoryJournal:
    """Rows in a dict behind one lock; safe to share between threads and event loops.

    `namespace` keeps the proofs of one environment and service apart from another's. `max_rows` and
    `max_bytes` (of stored results) bound its memory. `clock` gives seconds that never run backwards.
    """

    def __init__(
        self,
        *,
        namespace: str = "",
        terms: Terms = DEFAULT_TERMS,
        max_rows: int = 100_000,
        max_bytes: int = 256 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._terms = terms
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._clock = clock
        self._pepper = secrets.token_bytes(32) + namespace.encode()
        self._lock = threading.Lock()
        self._rows: dict[bytes, Row] = {}
        self._owed: dict[bytes, Row] = {}
        self._transactions: dict[str, bytes] = {}
        self._expiring: list[tuple[float, bytes]] = []
        self._bytes = 0
        self._fences = itertools.count(1)

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        """Forgets everything, also what is owed: for tests."""
        with self._lock:
            for kept in (self._rows, self._owed, self._transactions, self._expiring):
                kept.clear()
            self._bytes = 0

    def claim(self, proof: str, claimant: Claimant) -> Claim:
        key = hmac.digest(self._pepper, proof.encode(), "sha256")
        fingerprint = self._fingerprint(claimant)
        with self._lock:
            now = self._clock()
            self._forget_expired(now)
            row = self._rows.get(key)
            if row is not None:
                claim = row.claimed_again(
                    fingerprint, claimant.replay, now, self._terms, self._holder(), math.inf
                )
                if isinstance(claim, Fresh | Again):
                    self._note_expiry(row)
                return claim
            if len(self._rows) >= self._max_rows or self._bytes >= self._max_bytes:
                raise JournalFull(f"the memory journal is full ({len(self._rows)} rows, {self._bytes} bytes)")
            row = Row.claimed(key, "", fingerprint, proof, self._holder(), now, self._terms)
            self._rows[key] = row
            self._note_expiry(row)
            return Fresh(Ticket(key, row.fence))

    def _fingerprint(self, claimant: Claimant) -> Fingerprint:
        """Credentials are hashed, so that none is kept."""

        def hashed(text: str) -> str:
            return hmac.digest(self._pepper, text.encode(), "sha256").hex()

        client = (hash_credential(one, hashed) for one in claimant.credentials)
        return Fingerprint(claimant.request, frozenset(client), claimant.body_digest)

    def _holder(self) -> Holder:
        """The one process there is. It lives as long as its rows, so that no lease ends before its time."""
        return Holder("", "", next(self._fences))

    def has_unknown_keys(self) -> bool:
        return False

    def start(self, ticket: Ticket, transaction_id: str, revision_id: str, seconds: float) -> bool:
        with self._lock:
            now, row = self._clock(), self._rows.get(ticket.key)
            if not self._is_free(transaction_id, ticket.key):
                return False
            started = row is not None and row.start(
                ticket, transaction_id, revision_id, seconds, now, self._terms
            )
            self._learned(row, transaction_id, revision_id, waits=False)
            return started

    def wait(self, ticket: Ticket, transaction_id: str, revision_id: str) -> None:
        with self._lock:
            now, row = self._clock(), self._rows.get(ticket.key)
            if not self._is_free(transaction_id, ticket.key):
                self._drop(ticket, row)
                return
            if row is not None:
                row.wait(ticket, transaction_id, revision_id, now, self._terms)
            self._learned(row, transaction_id, revision_id, waits=True)

    def _learned(self, row: Row | None, transaction_id: str, revision_id: str, *, waits: bool) -> None:
        if row is not None:
            row.learn(transaction_id, revision_id, waits)
        if row is None or row.transaction_id != transaction_id:
            raise JournalError("the row of this payment is gone, or knows of another transaction")
        self._transactions[transaction_id] = row.key
        if row.expires_at is None:
            self._owed[row.key] = row

    def decide(self, ticket: Ticket, outcome: Outcome) -> bool:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is None or not row.decide(ticket, outcome, self._clock(), self._terms):
                return False
            self._bytes += size_of(outcome)
            return True

    def hold(self, ticket: Ticket) -> bool:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is None:
                return True
            row.hold(ticket, self._clock(), self._terms)
            return row.state is not State.STUCK

    def stick(self, ticket: Ticket, reason: str) -> None:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is not None:
                row.stick(ticket, reason, self._clock())

    def postpone(self, ticket: Ticket) -> None:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is not None:
                row.postpone(ticket, self._clock(), self._terms)

    def release(self, ticket: Ticket, payment_response: str, receipt: str, delivered: bool) -> bool:
        with self._lock:
            now, row = self._clock(), self._rows.get(ticket.key)
            if row is None:
                return True
            if row.release(ticket, payment_response, receipt, delivered, now, self._terms):
                self._note_expiry(row)
                return True
            return not row.is_delivered_by_another(ticket)

    def close(self, ticket: Ticket, paid: bool) -> None:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is None:
                return
            size = size_of(row.outcome)
            if row.close(ticket, paid, self._clock(), self._terms):
                self._bytes -= size
                self._note_expiry(row)

    def drop(self, ticket: Ticket) -> bool:
        with self._lock:
            return self._drop(ticket, self._rows.get(ticket.key))

    def _drop(self, ticket: Ticket, row: Row | None) -> bool:
        if row is None:
            return False
        if row.may_be_forgotten(ticket):
            self._forget(row)
            return True
        return row.drop(ticket, self._clock(), self._terms) and row.state is State.CLAIMED

    # What is owed

    def due(self) -> Entry | None:
        with self._lock:
            now = self._clock()
            self._forget_expired(now)
            row = next((row for row in self._owed.values() if row.is_due(now)), None)
            return None if row is None else self._taken(row, now)

    def holdings(self, limit: int) -> list[Holding]:
        """Rows that owe something, from the oldest on."""
        with self._lock:
            owed = sorted(self._owed.values(), key=lambda row: row.since)
            return [row.holding() for row in owed[:limit]]

    def holding(self, transaction_id: str) -> Holding | None:
        with self._lock:
            row = self._owed.get(self._transactions.get(transaction_id, b""))
            return None if row is None else row.holding()

    def take(self, transaction_id: str) -> Entry | None:
        """The row of this transaction, due or not, stuck or not; None while somebody else has it."""
        with self._lock:
            now, row = self._clock(), self._owed.get(self._transactions.get(transaction_id, b""))
            return None if row is None or row.lease_until > now else self._taken(row, now)

    def _taken(self, row: Row, now: float) -> Entry:
        """To the end of the line, so that a sweep finds the next due row at the front."""
        self._owed[row.key] = self._owed.pop(row.key)
        row.take(self._holder(), now + self._terms.completion_lease, now)
        return row.entry("")

    def _is_free(self, transaction_id: str, key: bytes) -> bool:
        return self._transactions.get(transaction_id, key) == key

    def _note_expiry(self, row: Row) -> None:
        if row.expires_at is not None:
            self._owed.pop(row.key, None)
            heapq.heappush(self._expiring, (row.expires_at, row.key))

    def _forget_expired(self, now: float) -> None:
        while self._expiring and self._expiring[0][0] <= now:
            at, key = heapq.heappop(self._expiring)
            row = self._rows.get(key)
            if row is not None and row.expires_at == at:
                self._forget(row)

    def _forget(self, row: Row) -> None:
        self._bytes -= size_of(row.outcome)
        del self._rows[row.key]
        self._owed.pop(row.key, None)
        self._transactions.pop(row.transaction_id, None)
