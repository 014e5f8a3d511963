"""The steps of a flow: frozen values, each performed by one method of the backend.

`answer = yield from step` gives the type that the step is declared with. A step does nothing by itself: a
driver (`faregate.core.driver`) performs it on a backend.
"""

from collections.abc import Generator
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar

from faregate.core.claims import (
    AlreadyUsed,
    Claim,
    Claimant,
    InProgress,
    Lease,
    PendingPayment,
    SettlementWrite,
)
from faregate.core.interfaces import Backend, MaybeAwaitable
from faregate.core.models import HandlerResult, Offer, OfferRevision, Outcome, PaidRequest
from faregate.core.results import Access, Completion, Predictability, TransactionReply
from faregate.events import Event
from faregate.frozen import frozen

T = TypeVar("T")
R = TypeVar("R")


class Step(Generic[T]):
    """One thing to do, which gives a `T`. `perform` has a backend do it."""

    __slots__ = ()

    def perform(self, backend: Backend) -> MaybeAwaitable[T]:
        raise TypeError(f"no backend performs {type(self).__name__}")

    def __iter__(self) -> Generator["Step[T]", T, T]:
        # `yield from step` gives the answer the type of the step. A bare `yield` would give it none.
        return (yield self)


class JournalWrite(Step[T]):
    """A write to the journal. `action` completes the log's "the journal could not ..."."""

    __slots__ = ()
    action: ClassVar[str]


Flow = Generator[Step[Any], Any, R]
"""A plain generator of steps that returns an `R`. It cannot await, block or look at a clock."""


# The service


@frozen
class ResolveOffer(Step[OfferRevision]):
    """The revision behind an offer. Raises `ConfigurationError` or `ServiceError`."""

    offer: Offer

    def perform(self, backend: Backend) -> MaybeAwaitable[OfferRevision]:
        return backend.resolve_offer(self.offer)


@frozen
class GetKnownRevision(Step[OfferRevision | None]):
    """The rules that were read last, however old; None if none were. Makes no call."""

    offer: Offer

    def perform(self, backend: Backend) -> MaybeAwaitable[OfferRevision | None]:
        return backend.get_known_revision(self.offer)


@frozen
class RefreshRevision(Step[OfferRevision | None]):
    """The rules after the service refused the revision of `rejected`; None while another call reads them.

    Raises `ConfigurationError` or `ServiceError`.
    """

    offer: Offer
    rejected: OfferRevision

    def perform(self, backend: Backend) -> MaybeAwaitable[OfferRevision | None]:
        return backend.refresh_revision(self.offer, self.rejected)


@frozen
class RecallPredictability(Step[Predictability]):
    """Read whether the service's instructions can be guessed. One of many callers has to find out."""

    def perform(self, backend: Backend) -> MaybeAwaitable[Predictability]:
        return backend.recall_predictability()


@frozen
class RecordPredictability(Step[None]):
    """Keep for a while whether the service's instructions can be guessed."""

    predictability: Predictability

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.record_predictability(self.predictability)


@frozen
class CallAccess(Step[Access]):
    """May this payer have the resource? Raises `ServiceError`."""

    request: PaidRequest
    revision: OfferRevision
    proof: str | None = field(repr=False)

    def perform(self, backend: Backend) -> MaybeAwaitable[Access]:
        return backend.call_access(self.request, self.revision, self.proof)


@frozen
class CallComplete(Step[Completion]):
    """Report the outcome; the service finishes the payment. Raises `ServiceError`."""

    payment: PendingPayment
    outcome: Outcome

    def perform(self, backend: Backend) -> MaybeAwaitable[Completion]:
        return backend.call_complete(self.payment, self.outcome)


@frozen
class GetTransaction(Step[TransactionReply]):
    """How the transaction stands. Raises `ServiceError`."""

    transaction_id: str

    def perform(self, backend: Backend) -> MaybeAwaitable[TransactionReply]:
        return backend.get_transaction_state(self.transaction_id)


@frozen
class CloseExecution(Step[None]):
    """Close a free execution with facts about its response, if there is one. Raises `ServiceError`."""

    execution_id: str
    revision: OfferRevision
    result: HandlerResult | None

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.close_execution(self.execution_id, self.revision, self.result)


# The work


@frozen
class RunHandler(Step[HandlerResult]):
    """Let the handler run. The adapter answers this one; the handler's exception is thrown in."""

    request: PaidRequest
    transaction_id: str | None


# The journal: every one may raise `JournalError`


@frozen
class ClaimProof(Step[Claim]):
    """Take the proof for this request, or learn what became of it."""

    proof: str = field(repr=False)
    claimant: Claimant

    def perform(self, backend: Backend) -> MaybeAwaitable[Claim]:
        return backend.journal.claim(self.proof, self.claimant)


@frozen
class FindOtherEncoding(Step[InProgress | AlreadyUsed | None]):
    """What became of the payment of this proof under other bytes; None if nothing did."""

    lease: Lease
    proof: str = field(repr=False)

    def perform(self, backend: Backend) -> MaybeAwaitable[InProgress | AlreadyUsed | None]:
        return backend.journal.find_other_encoding(self.lease, self.proof)


@frozen
class HasUnknownKeys(Step[bool]):
    """Whether the journal may have a row that cannot be found with the keys that were given."""

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.has_unknown_keys()


@frozen
class RecordTransaction(Step[bool]):
    """Write the transaction id, and lease the row for the work.

    False if the transaction belongs to another row or the lease is stale.
    """

    lease: Lease
    transaction_id: str
    revision_id: str
    seconds: float

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.record_transaction(
            self.lease, self.transaction_id, self.revision_id, self.seconds
        )


@frozen
class RecordPending(JournalWrite[None]):
    """Write the id of a transaction that settles without us, and give the lease back."""

    action: ClassVar[str] = "store the pending payment"
    lease: Lease
    transaction_id: str
    revision_id: str

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.journal.record_pending(self.lease, self.transaction_id, self.revision_id)


@frozen
class RecordOutcome(Step[bool]):
    """Write the outcome, once and for ever; False if the lease is lost: send nothing then."""

    lease: Lease
    outcome: Outcome

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.record_outcome(self.lease, self.outcome)


@frozen
class ScheduleRetry(JournalWrite[bool]):
    """Give the lease back; the row stays owed. False: it was open for too long, and is stuck."""

    action: ClassVar[str] = "schedule a retry of the payment"
    lease: Lease

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.schedule_retry(self.lease)


@frozen
class MarkStuck(JournalWrite[None]):
    """Give the lease back for good: asking again would be answered in the same way."""

    action: ClassVar[str] = "mark the payment as stuck"
    lease: Lease
    reason: str

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.journal.mark_stuck(self.lease, self.reason)


@frozen
class Postpone(JournalWrite[None]):
    """Give the lease back for long: the row is another seller's to finish."""

    action: ClassVar[str] = "postpone the payment"
    lease: Lease

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.journal.postpone(self.lease)


@frozen
class RecordSettlement(JournalWrite[SettlementWrite]):
    """Write what proves the payment before the first byte leaves.

    `delivered` False: no payer waits for it.
    """

    action: ClassVar[str] = "record the settlement"
    lease: Lease
    payment_response: str
    receipt: str = field(repr=False)
    delivered: bool

    def perform(self, backend: Backend) -> MaybeAwaitable[SettlementWrite]:
        return backend.journal.record_settlement(
            self.lease, self.payment_response, self.receipt, self.delivered
        )


@frozen
class RecordFinal(JournalWrite[bool]):
    """Record that the payment has ended. `paid` False: it failed for certain, and the payer may pay again.

    `reason` and `receipt` are for operators. False: the lease was lost, and another worker ends the payment.
    """

    action: ClassVar[str] = "record the end of the payment"
    lease: Lease
    paid: bool = False
    reason: str = ""
    receipt: str = field(default="", repr=False)

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.record_final(self.lease, self.paid, self.reason, self.receipt)


@frozen
class AbandonClaim(JournalWrite[bool]):
    """Give up the claim: no work was started for it. False: another worker has it by now."""

    action: ClassVar[str] = "give up the claim"
    lease: Lease

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.abandon_claim(self.lease)


@frozen
class LeaseNext(Step[PendingPayment | None]):
    """Take one owed row whose lease is over; None when there is none."""

    def perform(self, backend: Backend) -> MaybeAwaitable[PendingPayment | None]:
        return backend.journal.lease_next()


@frozen
class RemoveUnfetched(Step[tuple[str, ...]]):
    """Remove up to `limit` paid results whose payer did not come in time; their transactions."""

    limit: int

    def perform(self, backend: Backend) -> MaybeAwaitable[tuple[str, ...]]:
        return backend.journal.remove_unfetched(self.limit)


# The rest


@frozen
class GetTime(Step[float]):
    """Seconds on a clock that never jumps; only differences mean anything."""

    def perform(self, backend: Backend) -> MaybeAwaitable[float]:
        return backend.get_time()


@frozen
class Sleep(Step[None]):
    """Pause for so many seconds."""

    seconds: float

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.sleep(self.seconds)


@frozen
class EmitEvent(Step[None]):
    """Tell those who listen. They change nothing."""

    event: Event

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.emit_event(self.event)


@frozen
class WriteFallback(Step[None]):
    """Write the id of a transaction that the journal could not write, wherever else it survives."""

    transaction_id: str
    revision_id: str

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.write_fallback(self.transaction_id, self.revision_id)


@frozen
class LogWarning(Step[None]):
    """Tell the seller's log. Never carries a proof, a key or content.

    `setting` names one of the paywall's settings, such as `journal_key`, which the seller is asked to check.
    """

    message: str
    transaction_id: str | None = None
    setting: str = ""

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.log_warning(self.message, self.transaction_id, self.setting)
