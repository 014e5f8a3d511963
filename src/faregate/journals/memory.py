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
from faregate.journals.row import Row, State, Terms
from faregate.model import Outcome, Succeeded
from faregate.records import Again, Claim, Entry, Fresh, Ticket

DEFAULT_TERMS = Terms()


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
            self._expire(now)
            row = self._rows.get(key)
            if row is not None:
                return self._claimed_again(row, request, now)
            if len(self._rows) >= self._max_rows or self._bytes >= self._max_bytes:
                raise JournalFull(f"the memory journal is full ({len(self._rows)} rows, {self._bytes} bytes)")
            row = Row(key, request, proof, now + self._terms.claim_lease, next(self._fences))
            self._rows[key] = row
            self._expire_in(row, 2 * self._terms.claim_lease)
            return Fresh(Ticket(key, row.fence))

    def _claimed_again(self, row: Row, request: str, now: float) -> Claim:
        first = not row.delivered
        claim = row.claimed_again(request, now, self._terms, next(self._fences))
        if isinstance(claim, Fresh):
            self._expire_in(row, 2 * self._terms.claim_lease)
        elif isinstance(claim, Again) and first:
            self._expire_in(row, self._terms.redelivery_window)
        return claim

    def start(self, ticket: Ticket, transaction_id: str, revision_id: str, seconds: float) -> bool:
        with self._lock:
            row = self._held(ticket, State.CLAIMED)
            if row is None or not self._bind(row, transaction_id, revision_id):
                return False
            row.state = State.RUNNING
            row.lease_until = self._clock() + seconds + self._terms.completion_lease
            return True

    def wait(self, ticket: Ticket, transaction_id: str, revision_id: str) -> None:
        with self._lock:
            row = self._held(ticket, State.CLAIMED)
            if row is None:
                return
            if self._bind(row, transaction_id, revision_id):
                row.state = State.WAITING
                row.give_back(self._clock(), self._terms)
            else:
                self._forget(row)

    def decide(self, ticket: Ticket, outcome: Outcome) -> bool:
        with self._lock:
            row = self._held(ticket, State.RUNNING)
            if row is None:
                return False
            row.outcome = outcome
            row.state = State.DECIDED
            row.lease_until = self._clock() + self._terms.completion_lease
            self._bytes += _size(outcome)
            return True

    def hold(self, ticket: Ticket) -> None:
        with self._lock:
            row = self._held(ticket, State.DECIDED, State.WAITING)
            if row is not None:
                row.give_back(self._clock(), self._terms)

    def release(self, ticket: Ticket, payment_response: str, delivered: bool) -> None:
        with self._lock:
            row = self._rows.get(ticket.key)
            if row is None or row.state is not State.DECIDED or not isinstance(row.outcome, Succeeded):
                return
            row.state = State.RELEASED
            row.payment_response = payment_response
            row.proof = ""
            row.delivered = delivered
            terms = self._terms
            self._expire_in(row, terms.redelivery_window if delivered else terms.undelivered_retention)

    def close(self, ticket: Ticket, paid: bool) -> None:
        with self._lock:
            row = self._held(ticket, State.DECIDED, State.WAITING)
            if row is None:
                return
            self._bytes -= _size(row.outcome)
            row.state = State.PAID if paid else State.CLOSED
            row.outcome = None
            row.proof = ""
            self._expire_in(row, self._terms.failed_retention)

    def drop(self, ticket: Ticket) -> None:
        with self._lock:
            row = self._held(ticket, State.CLAIMED, State.WAITING)
            if row is not None:
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

    def _held(self, ticket: Ticket, *states: State) -> Row | None:
        row = self._rows.get(ticket.key)
        return row if row is not None and row.obeys(ticket) and row.state in states else None

    def _bind(self, row: Row, transaction_id: str, revision_id: str) -> bool:
        if self._transactions.setdefault(transaction_id, row.key) != row.key:
            return False
        if row.transaction_id not in ("", transaction_id):
            del self._transactions[row.transaction_id]
        row.transaction_id = transaction_id
        row.revision_id = revision_id
        row.expires_at = None
        self._owed[row.key] = row
        return True

    def _expire_in(self, row: Row, seconds: float) -> None:
        self._owed.pop(row.key, None)
        row.expires_at = self._clock() + seconds
        heapq.heappush(self._expiring, (row.expires_at, row.key))

    def _expire(self, now: float) -> None:
        while self._expiring and self._expiring[0][0] <= now:
            at, key = heapq.heappop(self._expiring)
            row = self._rows.get(key)
            if row is not None and row.expires_at == at:
                self._forget(row)

    def _forget(self, row: Row) -> None:
        self._bytes -= _size(row.outcome)
        del self._rows[row.key]
        self._owed.pop(row.key, None)
        if row.transaction_id:
            self._transactions.pop(row.transaction_id, None)


def _size(outcome: Outcome | None) -> int:
    if not isinstance(outcome, Succeeded):
        return 0
    return len(outcome.result.body) + sum(len(name) + len(value) for name, value in outcome.result.headers)
