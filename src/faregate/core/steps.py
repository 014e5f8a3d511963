"""What a flow may ask of the world: typed values, one per question.

`answer = yield from step` gives the type the step is declared with. A step does nothing by itself:
a driver (`faregate.core.driver`) has it ask the world it was given.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from faregate.core.results import Access, Completion, Guessability, Standing
from faregate.events import Event
from faregate.core.models import Offer, Outcome, Rules, Sale, Work
from faregate.core.interfaces import Answer, World
from faregate.core.claims import Claim, Claimant, Entry, Ticket

T = TypeVar("T")
R = TypeVar("R")


class Step(Generic[T]):
    """A question whose answer is a `T`. `ask` says whose it is to answer."""

    __slots__ = ()

    def ask(self, world: World) -> Answer[T]:
        raise TypeError(f"{type(self).__name__} is not the world's to answer")

    def __iter__(self) -> Generator["Step[T]", T, T]:
        return (yield self)


Flow = Generator[Step[Any], Any, R]
"""A plain generator of steps that returns an `R`. It cannot await, block or look at a clock."""


# The service


@dataclass(frozen=True, slots=True)
class FindRules(Step[Rules]):
    """The revision behind an offer. Raises `Misconfigured` or `ServiceError`."""

    offer: Offer

    def ask(self, world: World) -> Answer[Rules]:
        return world.rules(self.offer)


@dataclass(frozen=True, slots=True)
class GetKnownRules(Step[Rules | None]):
    """The rules that were read last, however old; None if none were. Asks nobody."""

    offer: Offer

    def ask(self, world: World) -> Answer[Rules | None]:
        return world.known_rules(self.offer)


@dataclass(frozen=True, slots=True)
class RefreshRules(Step[Rules | None]):
    """The rules after the service refused the revision of `rejected`; None while somebody else reads them.

    Raises `Misconfigured` or `ServiceError`.
    """

    offer: Offer
    rejected: Rules

    def ask(self, world: World) -> Answer[Rules | None]:
        return world.refresh_rules(self.offer, self.rejected)


@dataclass(frozen=True, slots=True)
class RecallGuessability(Step[Guessability]):
    """Recall whether the service's instructions are unguessable. Of a crowd, one is told to find it out."""

    def ask(self, world: World) -> Answer[Guessability]:
        return world.recall_guessability()


@dataclass(frozen=True, slots=True)
class RecordGuessability(Step[None]):
    """Keep for a while whether the service's instructions are unguessable."""

    unguessable: bool

    def ask(self, world: World) -> Answer[None]:
        return world.record_guessability(self.unguessable)


@dataclass(frozen=True, slots=True)
class CallAccess(Step[Access]):
    """May this payer have the resource? Raises `ServiceError`."""

    sale: Sale
    rules: Rules
    proof: str | None = field(repr=False)

    def ask(self, world: World) -> Answer[Access]:
        return world.access(self.sale, self.rules, self.proof)


@dataclass(frozen=True, slots=True)
class CallComplete(Step[Completion]):
    """Report the outcome; the service finishes the payment. Raises `ServiceError`."""

    entry: Entry
    outcome: Outcome

    def ask(self, world: World) -> Answer[Completion]:
        return world.complete(self.entry, self.outcome)


@dataclass(frozen=True, slots=True)
class GetStanding(Step[Standing]):
    """How the transaction stands. Raises `ServiceError`."""

    transaction_id: str

    def ask(self, world: World) -> Answer[Standing]:
        return world.standing(self.transaction_id)


@dataclass(frozen=True, slots=True)
class CloseExecution(Step[None]):
    """Close a free execution with facts about its response, if there is one. Raises `ServiceError`."""

    execution_id: str
    rules: Rules
    work: Work | None

    def ask(self, world: World) -> Answer[None]:
        return world.close_execution(self.execution_id, self.rules, self.work)


# The work


@dataclass(frozen=True, slots=True)
class RunWork(Step[Work]):
    """Let the handler run. The adapter answers this one; the handler's exception is thrown in."""

    sale: Sale
    transaction_id: str | None


# The journal: every one may raise `JournalError`


@dataclass(frozen=True, slots=True)
class ClaimProof(Step[Claim]):
    """Take the proof for this request, or learn what became of it."""

    proof: str = field(repr=False)
    claimant: Claimant

    def ask(self, world: World) -> Answer[Claim]:
        return world.journal.claim(self.proof, self.claimant)


@dataclass(frozen=True, slots=True)
class HasUnknownKeys(Step[bool]):
    """Whether the journal may have a row that cannot be found with the keys that were given."""

    def ask(self, world: World) -> Answer[bool]:
        return world.journal.has_unknown_keys()


@dataclass(frozen=True, slots=True)
class Start(Step[bool]):
    """Write the transaction id, and lease the row for the work.

    False if the transaction belongs to another row or the ticket is stale.
    """

    ticket: Ticket
    transaction_id: str
    revision_id: str
    seconds: float

    def ask(self, world: World) -> Answer[bool]:
        return world.journal.start(self.ticket, self.transaction_id, self.revision_id, self.seconds)


@dataclass(frozen=True, slots=True)
class Await(Step[None]):
    """Write the id of a transaction that settles without us, and give the lease back."""

    ticket: Ticket
    transaction_id: str
    revision_id: str

    def ask(self, world: World) -> Answer[None]:
        return world.journal.wait(self.ticket, self.transaction_id, self.revision_id)


@dataclass(frozen=True, slots=True)
class Decide(Step[bool]):
    """Write the outcome, once and for ever; False if the lease is lost: send nothing then."""

    ticket: Ticket
    outcome: Outcome

    def ask(self, world: World) -> Answer[bool]:
        return world.journal.decide(self.ticket, self.outcome)


@dataclass(frozen=True, slots=True)
class Hold(Step[bool]):
    """Give the lease back; the row stays owed. False: it was open for too long, and is stuck."""

    ticket: Ticket

    def ask(self, world: World) -> Answer[bool]:
        return world.journal.hold(self.ticket)


@dataclass(frozen=True, slots=True)
class Stick(Step[None]):
    """Give the lease back for good: asking again would be answered in the same way."""

    ticket: Ticket
    reason: str

    def ask(self, world: World) -> Answer[None]:
        return world.journal.stick(self.ticket, self.reason)


@dataclass(frozen=True, slots=True)
class Postpone(Step[None]):
    """Give the lease back for long: the row is another seller's to finish."""

    ticket: Ticket

    def ask(self, world: World) -> Answer[None]:
        return world.journal.postpone(self.ticket)


@dataclass(frozen=True, slots=True)
class Release(Step[bool]):
    """Write what proves the payment before the first byte leaves. `delivered` False: nobody waits for it.

    False: the lease was lost, and whoever took it over has delivered the result.
    """

    ticket: Ticket
    payment_response: str
    receipt: str = field(repr=False)
    delivered: bool

    def ask(self, world: World) -> Answer[bool]:
        return world.journal.release(self.ticket, self.payment_response, self.receipt, self.delivered)


@dataclass(frozen=True, slots=True)
class Close(Step[None]):
    """Nothing is owed any more. `paid` False: the payment failed for certain, and a new one is right."""

    ticket: Ticket
    paid: bool = False

    def ask(self, world: World) -> Answer[None]:
        return world.journal.close(self.ticket, self.paid)


@dataclass(frozen=True, slots=True)
class Drop(Step[bool]):
    """Give up the claim: no work was started for it. False: somebody else has it by now."""

    ticket: Ticket

    def ask(self, world: World) -> Answer[bool]:
        return world.journal.drop(self.ticket)


@dataclass(frozen=True, slots=True)
class TakeDue(Step[Entry | None]):
    """Take one owed row whose lease is over; None when there is none."""

    def ask(self, world: World) -> Answer[Entry | None]:
        return world.journal.due()


# The rest


@dataclass(frozen=True, slots=True)
class GetTime(Step[float]):
    """Seconds on a clock that never jumps; only differences mean anything."""

    def ask(self, world: World) -> Answer[float]:
        return world.now()


@dataclass(frozen=True, slots=True)
class Wait(Step[None]):
    """Pause for so many seconds."""

    seconds: float

    def ask(self, world: World) -> Answer[None]:
        return world.pause(self.seconds)


@dataclass(frozen=True, slots=True)
class Tell(Step[None]):
    """Tell those who listen. They change nothing."""

    event: Event

    def ask(self, world: World) -> Answer[None]:
        return world.tell(self.event)


@dataclass(frozen=True, slots=True)
class LastResort(Step[None]):
    """Write the id of a transaction that the journal could not write, wherever else it survives."""

    transaction_id: str
    revision_id: str

    def ask(self, world: World) -> Answer[None]:
        return world.last_resort(self.transaction_id, self.revision_id)


@dataclass(frozen=True, slots=True)
class Note(Step[None]):
    """Tell the seller's log. Never carries a proof, a key or content."""

    message: str
    transaction_id: str | None = None

    def ask(self, world: World) -> Answer[None]:
        return world.note(self.message, self.transaction_id)
