"""Report an outcome to the service, and tell what became of the payment (`faregate.core.results.Settlement`).

The rules are at the top of `faregate.core.flow`.
"""

from dataclasses import replace
from typing import TypeVar

from faregate.core.claims import PendingPayment, SettlementWrite
from faregate.core.models import Outcome, WorkFailed, WorkSucceeded
from faregate.core.results import (
    Completion,
    CompletionPaid,
    CompletionPending,
    CompletionRefused,
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
    DeliveredElsewhere,
    LeaseLost,
    OpenPayment,
    PaidWithoutResult,
    PaymentFailed,
    PaymentProven,
    Settlement,
    StillSettling,
    StuckPayment,
    Unconfirmed,
)
from faregate.core.sales import describe, describe_receipt, measure
from faregate.core.steps import (
    CallComplete,
    EmitEvent,
    Flow,
    GetTime,
    JournalWrite,
    LogWarning,
    MarkStuck,
    RecordFinal,
    RecordOutcome,
    RecordSettlement,
    ScheduleRetry,
    Sleep,
)
from faregate.errors import ServiceError
from faregate.events import Failed, Held, Released, Settled, Stuck, Worked

T = TypeVar("T")

_COOKIES = frozenset(("set-cookie", "set-cookie2"))

COMPLETE_PAUSES = (0.2, 0.8)
"""Seconds before the second and the third attempt to complete."""
RETRY_BUDGET_SECONDS = 3.0
"""No call is repeated later than this after its first attempt began: a payer waits."""


def report_success(payment: PendingPayment, outcome: WorkSucceeded, is_observed: bool) -> Flow[Settlement]:
    """Write the outcome, then complete. `is_observed`: whether there is a listener for events."""
    # Write the outcome before calling complete. After a crash the next worker must find the outcome that the
    # service has, and the result that the payer may have been charged for.
    if not (yield from record_outcome(payment, _remove_cookies(outcome))):
        return LeaseLost()
    if is_observed:
        yield from EmitEvent(
            Worked(payment.transaction_id, outcome.result.status, outcome.duration_ms, payment.sale)
        )
    return (
        yield from complete_success(payment, outcome, repeated=False, awaited=True, is_observed=is_observed)
    )


def report_failure(payment: PendingPayment, code: str) -> Flow[Settlement]:
    """Write the outcome `failed` with its failure code, then report it."""
    if not (yield from record_outcome(payment, WorkFailed(code))):
        return LeaseLost()
    return (yield from complete_failure(payment, WorkFailed(code), repeated=False))


def record_outcome(payment: PendingPayment, outcome: Outcome) -> Flow[bool]:
    """Write the outcome. False: another worker has the row, or whether it was written is unknown."""
    try:
        return (yield from RecordOutcome(payment.lease, outcome))
    except Exception as error:
        # It may have been written. Complete is not called now: the next reader of the row decides.
        yield from LogWarning(f"the journal could not write the outcome: {error}", payment.transaction_id)
        return False


def _remove_cookies(outcome: WorkSucceeded) -> WorkSucceeded:
    """The outcome as the journal stores it: a cookie is for the first request alone, never replayed."""
    result = outcome.result
    kept = tuple([pair for pair in result.headers if pair[0].lower() not in _COOKIES])
    if len(kept) == len(result.headers):
        return outcome
    return replace(outcome, result=replace(result, headers=kept))


def complete_success(
    payment: PendingPayment,
    outcome: WorkSucceeded,
    *,
    repeated: bool,
    awaited: bool,
    is_observed: bool = True,
) -> Flow[Settlement]:
    """Complete work that can be sold.

    `repeated`: the outcome was written by an earlier attempt. `awaited`: the payer waits for the result.
    """
    if is_observed:
        payment, completion = yield from _measure_completion(payment, outcome)
    else:
        completion = yield from _complete(payment, outcome)
    match completion:
        case CompletionPaid(payment_response, receipt):
            # From here on the payment is proven, whatever happens to the journal: if that cannot be written,
            # the result leaves all the same.
            step = RecordSettlement(payment.lease, payment_response, receipt, awaited)
            record = yield from write(step, SettlementWrite.FIRST, payment.transaction_id)
            if is_observed:
                payment = describe_receipt(payment, receipt)
                # Two workers may complete a payment whose lease was lost: it is reported, and counted, once.
                if record is SettlementWrite.FIRST:
                    yield from EmitEvent(Settled(payment.transaction_id, awaited, payment.sale))
            if awaited and record is SettlementWrite.DELIVERED_ELSEWHERE:
                return DeliveredElsewhere()
            if awaited and is_observed:
                yield from EmitEvent(Released(payment.transaction_id, payment.sale))
            return PaymentProven(outcome.result, payment_response)
        case CompletionPending(reply):
            return (yield from schedule_retry(payment, StillSettling(reply)))
        case CompletionUnpaid():
            return (yield from close_unpaid(payment, "payment_failed"))
        case CompletionRejected(status, code):
            yield from LogWarning(f"completion was refused: {status} {code}", payment.transaction_id)
            refused = CompletionRefused(completion)
            return (yield from _handle_refusal(payment, refused, completion, repeated))
        case CompletionUnknown(reason):
            yield from LogWarning(f"the payment is not proven: {reason}", payment.transaction_id)
            return (yield from schedule_retry(payment, Unconfirmed("not proven")))


def complete_failure(payment: PendingPayment, outcome: WorkFailed, *, repeated: bool) -> Flow[Settlement]:
    """Report work that gave nothing to sell."""
    payment, completion = yield from _measure_completion(payment, outcome)
    match completion:
        case CompletionUnpaid():
            return (yield from close_unpaid(payment, outcome.code))
        case CompletionPaid(_, receipt):
            yield from LogWarning(
                "the service settled a payment that was reported as failed", payment.transaction_id
            )
            return (yield from close_paid(payment, receipt, outcome.code))
        case CompletionRejected(status, code):
            yield from LogWarning(f"a failed outcome was refused: {status} {code}", payment.transaction_id)
            # The payer got nothing, so they need not know that the report was refused.
            refused = Unconfirmed(CompletionRefused(completion).reason)
            return (yield from _handle_refusal(payment, refused, completion, repeated))
        case _:
            yield from LogWarning("a failed outcome is not acknowledged yet", payment.transaction_id)
            return (yield from schedule_retry(payment, Unconfirmed("not acknowledged")))


def _measure_completion(payment: PendingPayment, outcome: Outcome) -> Flow[tuple[PendingPayment, Completion]]:
    """The payment, with the time that its completion took, and the first clear answer."""
    began = yield from GetTime()
    completion = yield from _complete(payment, outcome)
    return describe(payment, complete_ms=(yield from measure(began))), completion


def _complete(payment: PendingPayment, outcome: Outcome) -> Flow[Completion]:
    """The first clear answer. To complete twice is safe: the service keeps the first outcome."""
    began = yield from GetTime()
    pauses = iter(COMPLETE_PAUSES)
    while True:
        try:
            completion = yield from CallComplete(payment, outcome)
        # The service may have acted. Sending the same outcome again is the only way to find out.
        except ServiceError as error:
            completion = CompletionUnknown(str(error))
        if not _is_retryable(completion) or (pause := next(pauses, None)) is None:
            return completion
        # Do not repeat a call that used up its whole time-out: a payer waits.
        if (yield from GetTime()) - began > RETRY_BUDGET_SECONDS:
            return completion
        yield from Sleep(pause)


def _is_retryable(completion: Completion) -> bool:
    # Repeating the call would give the same 4xx.
    if isinstance(completion, CompletionRejected):
        return completion.status >= 500
    return isinstance(completion, CompletionUnknown)


# Writes to the journal afterwards. An error in one of these changes nothing for the payer.


def schedule_retry(payment: PendingPayment, state: OpenPayment) -> Flow[Settlement]:
    """Keep the row for the payer or the sweep, until it is older than the journal's horizon."""
    # A row that could not be written is kept, too: its lease ends by itself, and it is due then.
    if not (yield from write(ScheduleRetry(payment.lease), True, payment.transaction_id)):
        return (yield from _report_stuck(payment, state, f"still open: {state.reason}"))
    yield from EmitEvent(Held(payment.transaction_id, state.reason, payment.sale))
    return state


def _handle_refusal(
    payment: PendingPayment, state: OpenPayment, rejection: CompletionRejected, repeated: bool
) -> Flow[Settlement]:
    """Retry, unless the service refused this transaction before: its answer will not change."""
    if repeated and rejection.is_about_the_transaction:
        return (yield from mark_stuck(payment, state))
    return (yield from schedule_retry(payment, state))


def mark_stuck(payment: PendingPayment, state: OpenPayment) -> Flow[Settlement]:
    """Keep the row for an operator: the sweep need not come back."""
    yield from write(MarkStuck(payment.lease, state.reason), None, payment.transaction_id)
    return (yield from _report_stuck(payment, state, state.reason))


def _report_stuck(payment: PendingPayment, state: OpenPayment, reason: str) -> Flow[Settlement]:
    yield from LogWarning(f"an operator must resolve this: {reason} (faregate holds)", payment.transaction_id)
    yield from EmitEvent(Stuck(payment.transaction_id, reason, payment.sale))
    return StuckPayment(state, reason)


def close_unpaid(payment: PendingPayment, code: str) -> Flow[Settlement]:
    """End the row: nothing was charged, for certain."""
    step = RecordFinal(payment.lease, reason=code)
    # Emit the event also if the journal cannot be written: perhaps no other worker ever will.
    if (yield from write(step, True, payment.transaction_id)):
        yield from EmitEvent(Failed(payment.transaction_id, code, payment.sale))
    return PaymentFailed(code)


def close_paid(payment: PendingPayment, receipt: str, reason: str) -> Flow[Settlement]:
    """End the row: the payer was charged, and there is no result to deliver, for this reason."""
    step = RecordFinal(payment.lease, paid=True, reason=reason, receipt=receipt)
    if (yield from write(step, True, payment.transaction_id)):
        payment = describe_receipt(payment, receipt)
        yield from EmitEvent(Settled(payment.transaction_id, sale=payment.sale))
    return PaidWithoutResult()


def write(step: JournalWrite[T], otherwise: T, transaction_id: str | None = None) -> Flow[T]:
    """Perform a step that writes to the journal. If it fails, log that and return `otherwise`.

    A row that is not written stays owed, and the sweep ends it.
    """
    try:
        return (yield from step)
    except Exception as error:
        yield from LogWarning(f"the journal could not {step.action}: {error}", transaction_id)
        return otherwise
