"""The calls of a flow as values: a script lists them with their answers, and a model performs them later.

A flow that is given `STEPS` as its backend yields such a value for each call, and its answer is sent back in.
"""

from collections.abc import Iterator
from dataclasses import field
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias, cast

from faregate.core import completion, flow, recovery, service_price
from faregate.core.claim_types import Claimant, Lease, PendingPayment
from faregate.core.interfaces import Backend, MaybeAwaitable, RunHandler
from faregate.core.models import HandlerResult, Offer, OfferRevision, Outcome, PaidRequest
from faregate.core.results import Predictability
from faregate.events import Event
from faregate.frozen import frozen


class Step:
    """A call of `Backend` or of its `Journal`, which say what it does. `perform` has a backend do it."""

    __slots__: tuple[str, ...] = ()

    def perform(self, backend: Backend) -> MaybeAwaitable[Any]:
        owner, name = _METHODS[type(self)]
        method = getattr(backend.journal if owner is _StepJournal else backend, name)
        return method(*(getattr(self, field_name) for field_name in self.__slots__))


Question: TypeAlias = Step | RunHandler
"""What a flow yields."""


# The service


@frozen
class ResolveOffer(Step):
    offer: Offer


@frozen
class GetKnownRevision(Step):
    offer: Offer


@frozen
class RefreshRevision(Step):
    offer: Offer
    rejected: OfferRevision


@frozen
class RecallPredictability(Step):
    pass


@frozen
class RecordPredictability(Step):
    predictability: Predictability


@frozen
class CallAccess(Step):
    request: PaidRequest
    revision: OfferRevision
    proof: str | None = field(repr=False)


@frozen
class CallComplete(Step):
    payment: PendingPayment
    outcome: Outcome


@frozen
class GetTransaction(Step):
    transaction_id: str


@frozen
class FindPayer(Step):
    transaction_id: str


@frozen
class CloseExecution(Step):
    execution_id: str
    revision: OfferRevision
    result: HandlerResult | None


# The journal


@frozen
class ClaimProof(Step):
    proof: str = field(repr=False)
    claimant: Claimant


@frozen
class ClaimTransaction(Step):
    transaction_id: str
    claimant: Claimant


@frozen
class FindOtherEncoding(Step):
    lease: Lease
    proof: str = field(repr=False)


@frozen
class HasUnknownKeys(Step):
    pass


@frozen
class RecordTransaction(Step):
    lease: Lease
    transaction_id: str
    revision_id: str
    seconds: float
    claimant: Claimant | None = None


@frozen
class RecordResumption(Step):
    lease: Lease
    transaction_id: str
    revision_id: str
    resumed: str


@frozen
class RecordPending(Step):
    lease: Lease
    transaction_id: str
    revision_id: str


@frozen
class RecordOutcome(Step):
    lease: Lease
    outcome: Outcome


@frozen
class ScheduleRetry(Step):
    lease: Lease


@frozen
class MarkStuck(Step):
    lease: Lease
    reason: str


@frozen
class Postpone(Step):
    lease: Lease


@frozen
class RecordSettlement(Step):
    lease: Lease
    payment_response: str
    receipt: str = field(repr=False)
    delivered: bool


@frozen
class RecordFinal(Step):
    lease: Lease
    paid: bool = False
    reason: str = ""
    receipt: str = field(default="", repr=False)


@frozen
class AbandonClaim(Step):
    lease: Lease


@frozen
class LeaseNext(Step):
    pass


@frozen
class RemoveUnfetched(Step):
    limit: int


# The rest


@frozen
class Sleep(Step):
    seconds: float


@frozen
class WaitForSettlement(Step):
    seconds: float


@frozen
class EmitEvent(Step):
    event: Event


@frozen
class WriteFallback(Step):
    transaction_id: str
    revision_id: str


@frozen
class LogWarning(Step):
    message: str
    transaction_id: str | None = None
    setting: str = ""


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


_METHODS = {
    step: (owner, name)
    for owner in (_StepJournal, _StepBackend)
    for name, step in vars(owner).items()
    if isinstance(step, type)
}
STEP_BACKEND = _StepBackend()
"""The backend that does nothing: each of its methods gives the step. `clock` gives its times."""
STEPS = cast(Backend, STEP_BACKEND)
serve = partial(flow.serve, STEPS)
sweep = partial(recovery.sweep, STEPS)
recover = partial(recovery.recover, STEPS)
complete_success = partial(completion.complete_success, STEPS)
complete_failure = partial(completion.complete_failure, STEPS)
report_failure = partial(completion.report_failure, STEPS)
hold = partial(completion.hold, STEPS)
mark_stuck = partial(completion.mark_stuck, STEPS)
close_unpaid = partial(completion.close_unpaid, STEPS)
close_paid = partial(completion.close_paid, STEPS)
ask_price = partial(service_price.ask_price, STEPS)
