"""The journal of one process. For tests and test keys: it forgets when the process ends.

It refuses new claims when full rather than forget a row that may still be owed something.
"""

import heapq
import hmac
import itertools
import secrets
import threading
import time
from collections.abc import Callable

from faregate.errors import JournalFull
from faregate.journals.row import Row, size_of
from faregate.journals.terms import DEFAULT_TERMS, Terms
from faregate.model import Outcome
from faregate.records import Again, Claim, Entry, Fresh, Ticket


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

    def claim(self, proof: str, request: str) -> Claim:
        key = hmac.digest(self._pepper, proof.encode(), "sha256")
        with self._lock:
            now = self._clock()
            self._forget_expired(now)
            row = self._rows.get(key)
            if row is not None:
                claim = row.claimed_again(request, now, self._terms, next(self._fences))
                if isinstance(claim, Fresh | Again):
                    self._note_expiry(row)
                return claim
            if len(self._rows) >= self._max_rows or self._bytes >= self._max_bytes:
                raise JournalFull(f"the memory journal is full ({len(self._rows)} rows, {self._bytes} bytes)")
            row = Row.claimed(key, request, proof, next(self._fences), now, self._terms)
            self._rows[key] = row
            self._note_expiry(row)
            return Fresh(Ticket(key, row.fence))

    def start(self, ticket: Ticket, transaction_id: str, revision_id: str, seconds: float) -> bool:
        with self._lock:
            row = self._rows.get(ticket.key)
            until = self._clock() + seconds + self._terms.completion_lease
            if row is None or not self._is_free(transaction_id, row):
                return False
            if not row.start(ticket, transaction_id, revision_id, until):
                return False
            self._note_owed(row)
            return True

    def wait(self, ticket: Ticket, transaction_id: str, revision_id: str) -> None:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is None or not row.may_start(ticket):
                return
            if not self._is_free(transaction_id, row):
                self._forget(row)
            elif row.wait(ticket, transaction_id, revision_id, self._clock(), self._terms):
                self._note_owed(row)

    def decide(self, ticket: Ticket, outcome: Outcome) -> bool:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is None or not row.decide(ticket, outcome, self._clock(), self._terms):
                return False
            self._bytes += size_of(outcome)
            return True

    def hold(self, ticket: Ticket) -> None:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is not None:
                row.hold(ticket, self._clock(), self._terms)

    def release(self, ticket: Ticket, payment_response: str, delivered: bool) -> None:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is not None and row.release(payment_response, delivered, self._clock(), self._terms):
                self._note_expiry(row)

    def close(self, ticket: Ticket, paid: bool) -> None:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is None:
                return
            size = size_of(row.outcome)
            if row.close(ticket, paid, self._clock(), self._terms):
                self._bytes -= size
                self._note_expiry(row)

    def drop(self, ticket: Ticket) -> None:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is not None and row.may_drop(ticket):
                self._forget(row)

    def due(self) -> Entry | None:
        with self._lock:
            now = self._clock()
            row = next((row for row in self._owed.values() if row.is_due(now)), None)
            if row is None:
                return None
            # To the end of the line, so that a sweep finds the next due row at the front.
            self._owed[row.key] = self._owed.pop(row.key)
            row.take(now + self._terms.completion_lease, next(self._fences))
            return row.entry()

    def _is_free(self, transaction_id: str, row: Row) -> bool:
        return self._transactions.get(transaction_id, row.key) == row.key

    def _note_owed(self, row: Row) -> None:
        self._transactions[row.transaction_id] = row.key
        self._owed[row.key] = row

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
