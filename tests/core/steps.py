"""The calls of a flow as values: a script lists them with their answers, and a model performs them later.

A flow that is given `STEPS` as its backend yields such a value for each call, and its answer is sent back in.
"""

from collections.abc import Iterator
from dataclasses import field
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias, cast

from faregate.core import completion, flow, prices, recovery
from faregate.core.claims import (
    AlreadyUsed,
    Claim,
    Claimant,
    EarlierPayment,
    InProgress,
    Lease,
    PendingPayment,
    SettlementWrite,
)
from faregate.core.interfaces import Backend, MaybeAwaitable, RunHandler
from faregate.core.models import HandlerResult, Offer, OfferRevision, Outcome, PaidRequest
from faregate.core.results import Access, Completion, Predictability, TransactionReply
from faregate.events import Event
from faregate.frozen import frozen


class Step:
    """A call of the backend. `perform` has a backend do it."""

    __slots__ = ()

    def perform(self, backend: Backend) -> MaybeAwaitable[Any]:
        raise TypeError(f"no backend performs {type(self).__name__}")


Question: TypeAlias = Step | RunHandler
"""What a flow yields."""


# The service


@frozen
class ResolveOffer(Step):
    """The revision behind an offer. Raises `ConfigurationError` or `ServiceError`."""

    offer: Offer

    def perform(self, backend: Backend) -> MaybeAwaitable[OfferRevision]:
        return backend.resolve_offer(self.offer)


@frozen
class GetKnownRevision(Step):
    """The rules that were read last, however old; None if none were. Makes no call."""

    offer: Offer

    def perform(self, backend: Backend) -> MaybeAwaitable[OfferRevision | None]:
        return backend.get_known_revision(self.offer)


@frozen
class RefreshRevision(Step):
    """The rules after the service refused the revision of `rejected`; None while another call reads them.

    Raises `ConfigurationError` or `ServiceError`.
    """

    offer: Offer
    rejected: OfferRevision

    def perform(self, backend: Backend) -> MaybeAwaitable[OfferRevision | None]:
        return backend.refresh_revision(self.offer, self.rejected)


@frozen
class RecallPredictability(Step):
    """Read whether the service's instructions can be guessed. One of many callers has to find out."""

    def perform(self, backend: Backend) -> MaybeAwaitable[Predictability]:
        return backend.recall_predictability()


@frozen
class RecordPredictability(Step):
    """Keep for a while whether the service's instructions can be guessed."""

    predictability: Predictability

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.record_predictability(self.predictability)


@frozen
class CallAccess(Step):
    """May this payer have the resource? Raises `ServiceError`."""

    request: PaidRequest
    revision: OfferRevision
    proof: str | None = field(repr=False)

    def perform(self, backend: Backend) -> MaybeAwaitable[Access]:
        return backend.call_access(self.request, self.revision, self.proof)


@frozen
class CallComplete(Step):
    """Report the outcome; the service finishes the payment. Raises `ServiceError`."""

    payment: PendingPayment
    outcome: Outcome

    def perform(self, backend: Backend) -> MaybeAwaitable[Completion]:
        return backend.call_complete(self.payment, self.outcome)


@frozen
class GetTransaction(Step):
    """How the transaction stands. Raises `ServiceError`."""

    transaction_id: str

    def perform(self, backend: Backend) -> MaybeAwaitable[TransactionReply]:
        return backend.get_transaction_state(self.transaction_id)


@frozen
class FindPayer(Step):
    """Who pays, as the service verified it. Raises `ServiceError`."""

    transaction_id: str

    def perform(self, backend: Backend) -> MaybeAwaitable[str]:
        return backend.find_payer(self.transaction_id)


@frozen
class CloseExecution(Step):
    """Close a free execution with facts about its response, if there is one. Raises `ServiceError`."""

    execution_id: str
    revision: OfferRevision
    result: HandlerResult | None

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.close_execution(self.execution_id, self.revision, self.result)


# The journal: every one may raise `JournalError`


@frozen
class ClaimProof(Step):
    """Take the proof for this request, or learn what became of it."""

    proof: str = field(repr=False)
    claimant: Claimant

    def perform(self, backend: Backend) -> MaybeAwaitable[Claim]:
        return backend.journal.claim(self.proof, self.claimant)


@frozen
class ClaimTransaction(Step):
    """Take the row of this transaction for its payer, or learn what became of it."""

    transaction_id: str
    claimant: Claimant

    def perform(self, backend: Backend) -> MaybeAwaitable[Claim]:
        return backend.journal.claim_transaction(self.transaction_id, self.claimant)


@frozen
class FindOtherEncoding(Step):
    """What became of the payment of this proof under other bytes; None if nothing did."""

    lease: Lease
    proof: str = field(repr=False)

    def perform(self, backend: Backend) -> MaybeAwaitable[InProgress | AlreadyUsed | None]:
        return backend.journal.find_other_encoding(self.lease, self.proof)


@frozen
class HasUnknownKeys(Step):
    """Whether the journal may have a row that cannot be found with the keys that were given."""

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.has_unknown_keys()


@frozen
class RecordTransaction(Step):
    """Write the transaction id, and lease the row for the work.

    False if the transaction belongs to another row or the lease is stale.
    """

    lease: Lease
    transaction_id: str
    revision_id: str
    seconds: float
    claimant: Claimant | None = None

    def perform(self, backend: Backend) -> MaybeAwaitable[bool | EarlierPayment]:
        return backend.journal.record_transaction(
            self.lease, self.transaction_id, self.revision_id, self.seconds, self.claimant
        )


@frozen
class RecordResumption(Step):
    """Bind the transaction and decide that it fails, because another one is resumed; False as above."""

    lease: Lease
    transaction_id: str
    revision_id: str
    resumed: str

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.record_resumption(
            self.lease, self.transaction_id, self.revision_id, self.resumed
        )


@frozen
class RecordPending(Step):
    """Write the id of a transaction that settles without us, and give the lease back."""

    lease: Lease
    transaction_id: str
    revision_id: str

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.journal.record_pending(self.lease, self.transaction_id, self.revision_id)


@frozen
class RecordOutcome(Step):
    """Write the outcome, once and for ever; False if the lease is lost: send nothing then."""

    lease: Lease
    outcome: Outcome

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.record_outcome(self.lease, self.outcome)


@frozen
class ScheduleRetry(Step):
    """Give the lease back; the row stays owed. False: it was open for too long, and is stuck."""

    lease: Lease

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.schedule_retry(self.lease)


@frozen
class MarkStuck(Step):
    """Give the lease back for good: asking again would be answered in the same way."""

    lease: Lease
    reason: str

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.journal.mark_stuck(self.lease, self.reason)


@frozen
class Postpone(Step):
    """Give the lease back for long: the row is another seller's to finish."""

    lease: Lease

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.journal.postpone(self.lease)


@frozen
class RecordSettlement(Step):
    """Write what proves the payment before the first byte leaves.

    `delivered` False: no payer waits for it.
    """

    lease: Lease
    payment_response: str
    receipt: str = field(repr=False)
    delivered: bool

    def perform(self, backend: Backend) -> MaybeAwaitable[SettlementWrite]:
        return backend.journal.record_settlement(
            self.lease, self.payment_response, self.receipt, self.delivered
        )


@frozen
class RecordFinal(Step):
    """Record that the payment has ended. `paid` False: it failed for certain, and the payer may pay again.

    `reason` and `receipt` are for operators. False: the lease was lost, and another worker ends the payment.
    """

    lease: Lease
    paid: bool = False
    reason: str = ""
    receipt: str = field(default="", repr=False)

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.record_final(self.lease, self.paid, self.reason, self.receipt)


@frozen
class AbandonClaim(Step):
    """Give up the claim: no work was started for it. False: another worker has it by now."""

    lease: Lease

    def perform(self, backend: Backend) -> MaybeAwaitable[bool]:
        return backend.journal.abandon_claim(self.lease)


@frozen
class LeaseNext(Step):
    """Take one owed row whose lease is over; None when there is none."""

    def perform(self, backend: Backend) -> MaybeAwaitable[PendingPayment | None]:
        return backend.journal.lease_next()


@frozen
class RemoveUnfetched(Step):
    """Remove up to `limit` paid results whose payer did not come in time; their transactions."""

    limit: int

    def perform(self, backend: Backend) -> MaybeAwaitable[tuple[str, ...]]:
        return backend.journal.remove_unfetched(self.limit)


# The rest


@frozen
class Sleep(Step):
    """Pause for so many seconds."""

    seconds: float

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.sleep(self.seconds)


@frozen
class WaitForSettlement(Step):
    """Pause for so many seconds while a payment settles; False, at once, where too many requests do."""

    seconds: float


@frozen
class EmitEvent(Step):
    """Tell those who listen. They change nothing."""

    event: Event

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.emit_event(self.event)


@frozen
class WriteFallback(Step):
    """Write the id of a transaction that the journal could not write, wherever else it survives."""

    transaction_id: str
    revision_id: str

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.write_fallback(self.transaction_id, self.revision_id)


@frozen
class LogWarning(Step):
    """Tell the seller's log. Never carries a proof, a key or content.

    `setting` names one of the paywall's settings, such as `journal_key`, which the seller is asked to check.
    """

    message: str
    transaction_id: str | None = None
    setting: str = ""

    def perform(self, backend: Backend) -> MaybeAwaitable[None]:
        return backend.log_warning(self.message, self.transaction_id, self.setting)


class _StepJournal:
    claim = ClaimProof
    claim_transaction = ClaimTransaction
    find_other_encoding = FindOtherEncoding
    has_unknown_keys = HasUnknownKeys
    record_transaction = RecordTransaction
    record_resumption = RecordResumption
    record_pending = RecordPending
    record_outcome = RecordOutcome
    schedule_retry = ScheduleRetry
    mark_stuck = MarkStuck
    postpone = Postpone
    record_settlement = RecordSettlement
    record_final = RecordFinal
    abandon_claim = AbandonClaim
    lease_next = LeaseNext
    remove_unfetched = RemoveUnfetched


class _StepBackend:
    journal = _StepJournal()
    resolve_offer = ResolveOffer
    get_known_revision = GetKnownRevision
    refresh_revision = RefreshRevision
    recall_predictability = RecallPredictability
    record_predictability = RecordPredictability
    call_access = CallAccess
    call_complete = CallComplete
    get_transaction_state = GetTransaction
    find_payer = FindPayer
    close_execution = CloseExecution
    sleep = Sleep
    wait_for_settlement = WaitForSettlement
    emit_event = EmitEvent
    write_fallback = WriteFallback
    log_warning = LogWarning
    clock: Iterator[float] = repeat(0.0)

    def get_time(self) -> float:
        return next(self.clock)


STEP_BACKEND = _StepBackend()
"""The backend that does nothing: each of its methods gives the step. `clock` gives its times."""
STEPS = cast(Backend, STEP_BACKEND)
serve = partial(flow.serve, STEPS)
sweep = partial(recovery.sweep, STEPS)
recover = partial(recovery.recover, STEPS)
complete_success = partial(completion.complete_success, STEPS)
complete_failure = partial(completion.complete_failure, STEPS)
report_failure = partial(completion.report_failure, STEPS)
schedule_retry = partial(completion.schedule_retry, STEPS)
mark_stuck = partial(completion.mark_stuck, STEPS)
close_unpaid = partial(completion.close_unpaid, STEPS)
close_paid = partial(completion.close_paid, STEPS)
ask_price = partial(prices.ask_price, STEPS)
