"""One row, and what may be done to it. Every journal obeys these rules; each stores rows its own way.

Rules
1. A row moves CLAIMED -> RUNNING -> DECIDED -> RELEASED, CLOSED or PAID; or CLAIMED -> WAITING ->
   CLOSED or PAID; never back. PAID is paid without a result to hand out.
2. Who writes needs the newest fence. Release alone goes by the state: a proven payment stays proven.
3. A row whose lease is over belongs to whoever takes it next, under a new fence.
4. Only rows that owe nothing expire: RELEASED, CLOSED, PAID, and a CLAIMED one that never learned of a
   transaction. What is owed is never forgotten.
"""

from dataclasses import dataclass, field
from enum import Enum

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


@dataclass(frozen=True, slots=True)
class Terms:
    """How long rows live, in seconds, and how often a result is handed out again.

    `completion_lease` bounds the telling of an outcome; it is added to the time the work may take.
    A result that a sweep got paid is kept for `undelivered_retention` until its payer comes.
    """

    claim_lease: float = 30.0
    completion_lease: float = 120.0
    first_pause: float = 5.0
    longest_pause: float = 300.0
    undelivered_retention: float = 86_400.0
    redelivery_window: float = 600.0
    redeliveries: int = 3
    failed_retention: float = 3600.0


@dataclass(slots=True)
class Row:
    """What is remembered of one proof. Times are the journal's clock, in seconds."""

    key: bytes
    request: str
    proof: str = field(repr=False)
    lease_until: float
    fence: int
    expires_at: float | None = None
    state: State = State.CLAIMED
    transaction_id: str = ""
    revision_id: str = ""
    outcome: Outcome | None = None
    payment_response: str = ""
    delivered: bool = False
    redelivered: int = 0
    holds_so_far: int = 0
    due_at: float = 0.0

    def obeys(self, ticket: Ticket) -> bool:
        return self.fence == ticket.fence

    def entry(self) -> Entry:
        started = self.state is not State.WAITING
        ticket = Ticket(self.key, self.fence)
        return Entry(ticket, self.proof, self.transaction_id, self.revision_id, self.outcome, started)

    def take(self, until: float, fence: int) -> Ticket:
        """A new fence: whoever held the row before can write no more."""
        self.fence = fence
        self.lease_until = until
        return Ticket(self.key, fence)

    def claimed_again(self, request: str, now: float, terms: Terms, fence: int) -> Claim:
        """The same proof comes back. `fence` is newer than any before."""
        if request != self.request:
            return UsedElsewhere()
        if self.state is State.RELEASED:
            return self._delivered_again(terms)
        if self.state is State.CLOSED:
            return Void()
        if self.state is State.PAID:
            return Spent(self.transaction_id)
        if self.lease_until > now:
            return InProgress()
        if self.state is State.CLAIMED:
            return Fresh(self.take(now + terms.claim_lease, fence))
        self.take(now + terms.completion_lease, fence)
        return Owed(self.entry())

    def _delivered_again(self, terms: Terms) -> Claim:
        if self.redelivered >= terms.redeliveries or not isinstance(self.outcome, Succeeded):
            return Spent(self.transaction_id)
        if self.delivered:
            self.redelivered += 1
        self.delivered = True
        return Again(self.outcome.result, self.payment_response)

    def is_due(self, now: float) -> bool:
        owed = self.state in (State.RUNNING, State.DECIDED, State.WAITING)
        return owed and max(self.lease_until, self.due_at) <= now

    def give_back(self, now: float, terms: Terms) -> None:
        """The payer may come at once; the sweep waits longer each time."""
        self.lease_until = now
        self.due_at = now + min(terms.first_pause * 2 ** min(self.holds_so_far, 16), terms.longest_pause)
        self.holds_so_far += 1
