"""The steps of a flow: frozen values, each performed by one method of the backend.

`answer = yield from step` gives the type that the step is declared with. A step does nothing by itself: a
driver (`faregate.core.driver`) performs it on a backend.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from faregate.core.claims import Claim, Claimant, Lease, PendingPayment
from faregate.core.interfaces import Backend, MaybeAwaitable
from faregate.core.models import HandlerResult, Offer, OfferRevision, Outcome, PaidRequest
from faregate.core.results import Access, Completion, Guessability, TransactionState
from faregate.events import Event

T = TypeVar("T")
R = TypeVar("R")


class Step(Generic[T]):
    """A question whose answer is a `T`. `ask` says whose it is to answer."""

    __slots__ = ()

    def ask(self, world: Backend) -> MaybeAwaitable[T]:
        raise TypeError(f"{type(self).__name__} is not the world's to answer")

    def __iter__(self) -> Generator["Step[T]", T, T]:
        return (yield self)


Flow = Generator[Step[Any], Any, R]
"""A plain generator of steps that returns an `R`. It cannot await, block or look at a clock."""


# The service


@dataclass(frozen=True, slots=True)
class ResolveOffer(Step[OfferRevision]):
    """The revision behind an offer. Raises `ConfigurationError` or `ServiceError`."""

    offer: Offer

    def ask(self, world: Backend) -> MaybeAwaitable[OfferRevision]:
        return world.rules(self.offer)


@dataclass(frozen=True, slots=True)
class GetKnownRevision(Step[OfferRevision | None]):
    """The rules that were read last, however old; None if none were. Asks nobody."""

    offer: Offer

    def ask(self, world: Backend) -> MaybeAwaitable[OfferRevision | None]:
        return world.known_rules(self.offer)


@dataclass(frozen=True, slots=True)
class RefreshRevision(Step[OfferRevision | None]):
    """The rules after the service refused the revision of `rejected`; None while somebody else reads them.

    Raises `ConfigurationError` or `ServiceError`.
    """

    offer: Offer
    rejected: OfferRevision

    def ask(self, world: Backend) -> MaybeAwaitable[OfferRevision | None]:
        return world.refresh_rules(self.offer, self.rejected)


@dataclass(frozen=True, slots=True)
class RecallGuessability(Step[Guessability]):
    """Recall whether the service's instructions are unguessable. Of a crowd, one is told to find it out."""

    def ask(self, world: Backend) -> MaybeAwaitable[Guessability]:
        return world.recall_guessability()


@dataclass(frozen=True, slots=True)
class RecordGuessability(Step[None]):
    """Keep for a while whether the service's instructions are unguessable."""

    unguessable: bool

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.record_guessability(self.unguessable)


@dataclass(frozen=True, slots=True)
class CallAccess(Step[Access]):
    """May this payer have the resource? Raises `ServiceError`."""

    sale: PaidRequest
    rules: OfferRevision
    proof: str | None = field(repr=False)

    def ask(self, world: Backend) -> MaybeAwaitable[Access]:
        return world.access(self.sale, self.rules, self.proof)


@dataclass(frozen=True, slots=True)
class CallComplete(Step[Completion]):
    """Report the outcome; the service finishes the payment. Raises `ServiceError`."""

    entry: PendingPayment
    outcome: Outcome

    def ask(self, world: Backend) -> MaybeAwaitable[Completion]:
        return world.complete(self.entry, self.outcome)


@dataclass(frozen=True, slots=True)
class GetTransaction(Step[TransactionState]):
    """How the transaction stands. Raises `ServiceError`."""

    transaction_id: str

    def ask(self, world: Backend) -> MaybeAwaitable[TransactionState]:
        return world.standing(self.transaction_id)


@dataclass(frozen=True, slots=True)
class CloseExecution(Step[None]):
    """Close a free execution with facts about its response, if there is one. Raises `ServiceError`."""

    execution_id: str
    rules: OfferRevision
    work: HandlerResult | None

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.close_execution(self.execution_id, self.rules, self.work)


# The work


@dataclass(frozen=True, slots=True)
class RunHandler(Step[HandlerResult]):
    """Let the handler run. The adapter answers this one; the handler's exception is thrown in."""

    sale: PaidRequest
    transaction_id: str | None


# The journal: every one may raise `JournalError`


@dataclass(frozen=True, slots=True)
class ClaimProof(Step[Claim]):
    """Take the proof for this request, or learn what became of it."""

    proof: str = field(repr=False)
    claimant: Claimant

    def ask(self, world: Backend) -> MaybeAwaitable[Claim]:
        return world.journal.claim(self.proof, self.claimant)


@dataclass(frozen=True, slots=True)
class HasUnknownKeys(Step[bool]):
    """Whether the journal may have a row that cannot be found with the keys that were given."""

    def ask(self, world: Backend) -> MaybeAwaitable[bool]:
        return world.journal.has_unknown_keys()


@dataclass(frozen=True, slots=True)
class RecordTransaction(Step[bool]):
    """Write the transaction id, and lease the row for the work.

    False if the transaction belongs to another row or the ticket is stale.
    """

    lease: Lease
    transaction_id: str
    revision_id: str
    seconds: float

    def ask(self, world: Backend) -> MaybeAwaitable[bool]:
        return world.journal.record_transaction(
            self.lease, self.transaction_id, self.revision_id, self.seconds
        )


@dataclass(frozen=True, slots=True)
class RecordPending(Step[None]):
    """Write the id of a transaction that settles without us, and give the lease back."""

    lease: Lease
    transaction_id: str
    revision_id: str

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.journal.record_pending(self.lease, self.transaction_id, self.revision_id)


@dataclass(frozen=True, slots=True)
class RecordOutcome(Step[bool]):
    """Write the outcome, once and for ever; False if the lease is lost: send nothing then."""

    lease: Lease
    outcome: Outcome

    def ask(self, world: Backend) -> MaybeAwaitable[bool]:
        return world.journal.record_outcome(self.lease, self.outcome)


@dataclass(frozen=True, slots=True)
class ScheduleRetry(Step[bool]):
    """Give the lease back; the row stays owed. False: it was open for too long, and is stuck."""

    lease: Lease

    def ask(self, world: Backend) -> MaybeAwaitable[bool]:
        return world.journal.schedule_retry(self.lease)


@dataclass(frozen=True, slots=True)
class MarkStuck(Step[None]):
    """Give the lease back for good: asking again would be answered in the same way."""

    lease: Lease
    reason: str

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.journal.mark_stuck(self.lease, self.reason)


@dataclass(frozen=True, slots=True)
class Postpone(Step[None]):
    """Give the lease back for long: the row is another seller's to finish."""

    lease: Lease

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.journal.postpone(self.lease)


@dataclass(frozen=True, slots=True)
class RecordSettlement(Step[bool]):
    """Write what proves the payment before the first byte leaves. `delivered` False: nobody waits for it.

    False: the lease was lost, and whoever took it over has delivered the result.
    """

    lease: Lease
    payment_response: str
    receipt: str = field(repr=False)
    delivered: bool

    def ask(self, world: Backend) -> MaybeAwaitable[bool]:
        return world.journal.record_settlement(
            self.lease, self.payment_response, self.receipt, self.delivered
        )


@dataclass(frozen=True, slots=True)
class RecordFinal(Step[None]):
    """Nothing is owed any more. `paid` False: the payment failed for certain, and a new one is right."""

    lease: Lease
    paid: bool = False

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.journal.record_final(self.lease, self.paid)


@dataclass(frozen=True, slots=True)
class AbandonClaim(Step[bool]):
    """Give up the claim: no work was started for it. False: somebody else has it by now."""

    lease: Lease

    def ask(self, world: Backend) -> MaybeAwaitable[bool]:
        return world.journal.abandon_claim(self.lease)


@dataclass(frozen=True, slots=True)
class LeaseNext(Step[PendingPayment | None]):
    """Take one owed row whose lease is over; None when there is none."""

    def ask(self, world: Backend) -> MaybeAwaitable[PendingPayment | None]:
        return world.journal.lease_next()


# The rest


@dataclass(frozen=True, slots=True)
class GetTime(Step[float]):
    """Seconds on a clock that never jumps; only differences mean anything."""

    def ask(self, world: Backend) -> MaybeAwaitable[float]:
        return world.now()


@dataclass(frozen=True, slots=True)
class Sleep(Step[None]):
    """Pause for so many seconds."""

    seconds: float

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.pause(self.seconds)


@dataclass(frozen=True, slots=True)
class EmitEvent(Step[None]):
    """Tell those who listen. They change nothing."""

    event: Event

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.tell(self.event)


@dataclass(frozen=True, slots=True)
class WriteFallback(Step[None]):
    """Write the id of a transaction that the journal could not write, wherever else it survives."""

    transaction_id: str
    revision_id: str

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.last_resort(self.transaction_id, self.revision_id)


@dataclass(frozen=True, slots=True)
class LogWarning(Step[None]):
    """Tell the seller's log. Never carries a proof, a key or content."""

    message: str
    transaction_id: str | None = None

    def ask(self, world: Backend) -> MaybeAwaitable[None]:
        return world.note(self.message, self.transaction_id)
