"""One row, and what may be done to it. Every journal obeys these rules; each stores rows its own way.

Rules
1. A row moves CLAIMED -> RUNNING -> DECIDED -> RELEASED, CLOSED or PAID; or CLAIMED -> WAITING ->
   CLOSED or PAID; never back. PAID is paid without a result to hand out.
2. Who writes needs the newest fence. Release alone goes by the state: a proven payment stays proven.
3. A row whose lease is over belongs to whoever takes it next, under a new fence.
4. Only rows that owe nothing expire: RELEASED, CLOSED, PAID, and a CLAIMED one that never learned of a
   transaction. What is owed is never forgotten.

A journal asks its row, and stores what the row became if the row says that it changed.
"""

from dataclasses import dataclass, field
from enum import Enum

from faregate.journals.terms import Terms
from faregate.model import Outcome, Succeeded
from faregate.records import Again, Claim, Entry, Fresh, InProgress, Owed, Spent, Ticket, UsedElsewhere, Void


class State(Enum):
    CLAIMED = "claimed"
    WAITING = "waiting"
    RUNNING = "running"
    DECIDED = "decided"
    RELEASED = "released"
    CLOSED = "closed"
    PAID = "paid"


@dataclass(slots=True)
class Row:
    """What is remembered of one proof. Times are the journal's clock, in seconds.

    `expires_at` is None exactly while something is owed.
    """

    key: bytes
    request: str
    proof: str = field(repr=False)
    fence: int
    lease_until: float
    expires_at: float | None
    state: State = State.CLAIMED
    transaction_id: str = ""
    revision_id: str = ""
    outcome: Outcome | None = None
    payment_response: str = ""
    delivered: bool = False
    redelivered: int = 0
    holds_so_far: int = 0
    due_at: float = 0.0

    @classmethod
    def claimed(cls, key: bytes, request: str, proof: str, fence: int, now: float, terms: Terms) -> "Row":
        return cls(key, request, proof, fence, now + terms.claim_lease, now + 2 * terms.claim_lease)

    # A claim on a row that is there

    def claimed_again(self, request: str, now: float, terms: Terms, fence: int) -> Claim:
        """The same proof comes back; `fence` was never used. `Fresh`, `Owed` and `Again` changed the row."""
        if request != self.request:
            return UsedElsewhere()
        if self.state is State.RELEASED:
            return self._delivered_again(now, terms)
        if self.state is State.CLOSED:
            return Void()
        if self.state is State.PAID:
            return Spent(self.transaction_id)
        if self.lease_until > now:
            return InProgress()
        if self.state is State.CLAIMED:
            self.expires_at = now + 2 * terms.claim_lease
            return Fresh(self.take(now + terms.claim_lease, fence))
        self.take(now + terms.completion_lease, fence)
        return Owed(self.entry())

    def _delivered_again(self, now: float, terms: Terms) -> Claim:
        if self.redelivered >= terms.redeliveries or not isinstance(self.outcome, Succeeded):
            return Spent(self.transaction_id)
        if self.delivered:
            self.redelivered += 1
        else:
            self.delivered = True
            self.expires_at = now + terms.redelivery_window
        return Again(self.outcome.result, self.payment_response)

    def is_over(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def is_due(self, now: float) -> bool:
        return self.expires_at is None and max(self.lease_until, self.due_at) <= now

    def take(self, until: float, fence: int) -> Ticket:
        """A new fence: whoever held the row before can write no more."""
        self.fence = fence
        self.lease_until = until
        return Ticket(self.key, fence)

    def entry(self) -> Entry:
        started = self.state is not State.WAITING
        ticket = Ticket(self.key, self.fence)
        return Entry(ticket, self.proof, self.transaction_id, self.revision_id, self.outcome, started)

    # Writes under a ticket; each says whether the row changed

    def may_start(self, ticket: Ticket) -> bool:
        return self._is_held(ticket, State.CLAIMED)

    def start(self, ticket: Ticket, transaction_id: str, revision_id: str, until: float) -> bool:
        if not self.may_start(ticket):
            return False
        self._bind(State.RUNNING, transaction_id, revision_id)
        self.lease_until = until
        return True

    def wait(self, ticket: Ticket, transaction_id: str, revision_id: str, now: float, terms: Terms) -> bool:
        if not self.may_start(ticket):
            return False
        self._bind(State.WAITING, transaction_id, revision_id)
        self._give_back(now, terms)
        return True

    def decide(self, ticket: Ticket, outcome: Outcome, now: float, terms: Terms) -> bool:
        if not self._is_held(ticket, State.RUNNING):
            return False
        self.state = State.DECIDED
        self.outcome = outcome
        self.lease_until = now + terms.completion_lease
        return True

    def hold(self, ticket: Ticket, now: float, terms: Terms) -> bool:
        if not self._is_held(ticket, State.DECIDED, State.WAITING):
            return False
        self._give_back(now, terms)
        return True

    def release(self, payment_response: str, delivered: bool, now: float, terms: Terms) -> bool:
        if self.state is not State.DECIDED or not isinstance(self.outcome, Succeeded):
            return False
        self.state = State.RELEASED
        self.payment_response = payment_response
        self.proof = ""
        self.delivered = delivered
        self.expires_at = now + (terms.redelivery_window if delivered else terms.undelivered_retention)
        return True

    def close(self, ticket: Ticket, paid: bool, now: float, terms: Terms) -> bool:
        if not self._is_held(ticket, State.DECIDED, State.WAITING):
            return False
        self.state = State.PAID if paid else State.CLOSED
        self.outcome = None
        self.proof = ""
        self.expires_at = now + terms.failed_retention
        return True

    def may_drop(self, ticket: Ticket) -> bool:
        return self._is_held(ticket, State.CLAIMED, State.WAITING)

    def _is_held(self, ticket: Ticket, *states: State) -> bool:
        return self.fence == ticket.fence and self.state in states

    def _bind(self, state: State, transaction_id: str, revision_id: str) -> None:
        self.state = state
        self.transaction_id = transaction_id
        self.revision_id = revision_id
        self.expires_at = None

    def _give_back(self, now: float, terms: Terms) -> None:
        """The payer may come at once; the sweep waits longer each time."""
        self.lease_until = now
        self.due_at = now + min(terms.first_pause * 2 ** min(self.holds_so_far, 16), terms.longest_pause)
        self.holds_so_far += 1


def size_of(outcome: Outcome | None) -> int:
    """The bytes of a result that count towards a journal's bound."""
    if not isinstance(outcome, Succeeded):
        return 0
    return len(outcome.result.body) + sum(len(name) + len(value) for name, value in outcome.result.headers)
