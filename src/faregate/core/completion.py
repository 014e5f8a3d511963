"""Report an outcome to the service, and tell what became of the payment (`faregate.core.results.Settlement`).

What the outcome is was decided before, by `core.billing`.

The rules are at the top of `faregate.core.flow`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import TypeVar

from faregate.core.claim_types import Lease, PendingPayment, SettlementWrite
from faregate.core.interfaces import Backend, Flow, MaybeAwaitable
from faregate.core.models import Outcome, PaidRequest, WorkFailed, WorkSucceeded
from faregate.core.results import (
    Completion,
    CompletionPaid,
    CompletionPending,
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
    DeliveredElsewhere,
    LeaseLost,
    OpenAfterRejection,
    OpenPayment,
    PaidWithoutResult,
    PaymentFailed,
    PaymentProven,
    Settlement,
    StillSettling,
    StuckPayment,
    TransactionReply,
    TransactionSettled,
    TransactionState,
    Unconfirmed,
)
from faregate.core.sales import describe, describe_receipt, measure
from faregate.errors import ServiceError
from faregate.events import Failed, Held, Released, Settled, Stuck, Worked

T = TypeVar("T")

_COOKIES = frozenset(("set-cookie", "set-cookie2"))

COMPLETE_PAUSES = (0.2, 0.8)
"""Seconds before the second and the third attempt to complete."""
RETRY_BUDGET_SECONDS = 3.0
"""A call that took longer than this, its repetitions included, is not repeated again: a payer waits."""

SETTLE_PAUSES = (0.25, 0.5, 1.0)
"""Seconds between two looks at a payment that settles; the last again and again."""


def report_success(
    backend: Backend, payment: PendingPayment, outcome: WorkSucceeded, request: PaidRequest
) -> Flow[Settlement]:
    """Write the outcome, then complete."""
    is_observed = request.is_observed
    # Write the outcome before calling complete. After a crash the next worker must find the outcome that the
    # service has, and the result that the payer may have been charged for.
    if not (yield from record_outcome(backend, payment, _remove_cookies(outcome))):
        return LeaseLost()
    if is_observed:
        yield backend.emit_event(
            Worked(payment.transaction_id, outcome.result.status, outcome.duration_ms, payment.sale)
        )
    return (yield from complete_success(backend, payment, outcome, sticks_if_refused=False, request=request))


def report_failure(backend: Backend, payment: PendingPayment, code: str) -> Flow[Settlement]:
    """Write the outcome `failed` with its failure code, then report it."""
    if not (yield from record_outcome(backend, payment, WorkFailed(code))):
        return LeaseLost()
    return (yield from complete_failure(backend, payment, WorkFailed(code), sticks_if_refused=False))


def record_outcome(backend: Backend, payment: PendingPayment, outcome: Outcome) -> Flow[bool]:
    """Write the outcome. False: another worker has the row, or whether it was written is unknown."""
    try:
        is_recorded: bool = yield backend.journal.record_outcome(payment.lease, outcome)
    except Exception as error:
        # It may have been written. Complete is not called now: the next reader of the row decides.
        yield backend.log_warning(f"the journal could not write the outcome: {error}", payment.transaction_id)
        return False
    return is_recorded


def _remove_cookies(outcome: WorkSucceeded) -> WorkSucceeded:
    """The outcome as the journal stores it: a cookie is for the first request alone, never replayed."""
    result = outcome.result
    headers = tuple([pair for pair in result.headers if pair[0].lower() not in _COOKIES])
    if len(headers) == len(result.headers):
        return outcome
    return replace(outcome, result=replace(result, headers=headers))


def complete_success(
    backend: Backend,
    payment: PendingPayment,
    outcome: WorkSucceeded,
    *,
    sticks_if_refused: bool,
    request: PaidRequest | None,
) -> Flow[Settlement]:
    """Complete work that can be sold.

    `sticks_if_refused`: an earlier attempt wrote the outcome, and nothing contradicts it, so a refusal that
    is about the transaction makes the payment stuck. `request` is that of the payer who waits for the result,
    if any.
    """
    is_observed = request is None or request.is_observed
    if is_observed:
        payment, completion = yield from _measure_completion(backend, payment, outcome)
    else:
        completion = yield from _complete(backend, payment, outcome)
    if isinstance(completion, CompletionPending) and (yield from wait_until_ended(backend, payment, request)):
        completion = yield from _complete(backend, payment, outcome)
    match completion:
        case CompletionPaid(payment_response, receipt):
            # The result is not delivered if its payer has left; the payer may come back for it.
            payer_waits = yield from is_awaited(backend, request, is_last=False)
            # The payment is proven from here on. The result leaves even if the journal cannot be written.
            record = yield from _record_settlement(backend, payment, payment_response, receipt, payer_waits)
            was_delivered_elsewhere = payer_waits and record is SettlementWrite.DELIVERED_ELSEWHERE
            if payer_waits and not was_delivered_elsewhere and not (yield from is_awaited(backend, request)):
                # A busy journal takes a while, and a payer may leave meanwhile.
                payer_waits = False
                yield from _record_settlement(backend, payment, payment_response, receipt, payer_waits)
            if is_observed:
                payment = describe_receipt(payment, receipt)
                # Two workers may complete a payment whose lease was lost: it is reported, and counted, once.
                if record is SettlementWrite.FIRST:
                    yield backend.emit_event(Settled(payment.transaction_id, payer_waits, payment.sale))
            if was_delivered_elsewhere:
                return DeliveredElsewhere()
            if payer_waits and is_observed:
                yield backend.emit_event(Released(payment.transaction_id, payment.sale))
            return PaymentProven(outcome.result, payment_response)
        case CompletionPending(reply):
            return (yield from hold(backend, payment, StillSettling(reply)))
        case CompletionUnpaid():
            return (yield from close_unpaid(backend, payment, "payment_failed"))
        case CompletionRejected(status, code):
            yield backend.log_warning(f"completion was refused: {status} {code}", payment.transaction_id)
            refused = OpenAfterRejection(completion)
            return (yield from _handle_refusal(backend, payment, refused, completion, sticks_if_refused))
        case CompletionUnknown(reason):
            yield backend.log_warning(f"the payment is not proven: {reason}", payment.transaction_id)
            return (yield from hold(backend, payment, Unconfirmed("not proven")))


def is_awaited(backend: Backend, request: PaidRequest | None, *, is_last: bool = True) -> Flow[bool]:
    """Whether a payer waits for the result, as far as the server tells.

    A quick sale asks the server only once, just before the result leaves (`is_last`). It always asks then,
    because on a busy server the request may have waited before the sale began, and its payer may have left.
    """
    if request is None or request.has_payer_left is None:
        return request is not None
    if not is_last and backend.get_time() < request.first_look_at:
        return True
    has_left: bool = yield request.has_payer_left()
    return not has_left


def complete_failure(
    backend: Backend, payment: PendingPayment, outcome: WorkFailed, *, sticks_if_refused: bool
) -> Flow[Settlement]:
    """Report work that gave nothing to sell."""
    payment, completion = yield from _measure_completion(backend, payment, outcome)
    match completion:
        case CompletionUnpaid():
            return (yield from close_unpaid(backend, payment, outcome.code))
        case CompletionPaid(_, receipt):
            yield backend.log_warning(
                "the service settled a payment that was reported as failed", payment.transaction_id
            )
            return (yield from close_paid(backend, payment, receipt, outcome.code))
        case CompletionRejected(status, code):
            yield backend.log_warning(
                f"a failed outcome was refused: {status} {code}", payment.transaction_id
            )
            # The payer got nothing, so they need not know that the report was refused.
            refused = Unconfirmed(OpenAfterRejection(completion).reason)
            return (yield from _handle_refusal(backend, payment, refused, completion, sticks_if_refused))
        case _:
            yield backend.log_warning("a failed outcome is not acknowledged yet", payment.transaction_id)
            return (yield from hold(backend, payment, Unconfirmed("not acknowledged")))


def _measure_completion(
    backend: Backend, payment: PendingPayment, outcome: Outcome
) -> Flow[tuple[PendingPayment, Completion]]:
    """Complete; return the payment, with the time that took, and the last answer."""
    began = backend.get_time()
    completion = yield from _complete(backend, payment, outcome)
    return describe(payment, complete_ms=measure(backend, began)), completion


def _complete(backend: Backend, payment: PendingPayment, outcome: Outcome) -> Flow[Completion]:
    """Complete until the answer is clear, a few times at most; return the last answer.

    To complete twice is safe: the service keeps the first outcome.
    """
    began = backend.get_time()
    pauses = iter(COMPLETE_PAUSES)
    while True:
        try:
            completion: Completion = yield backend.call_complete(payment, outcome)
        # The service may have acted. Sending the same outcome again is the only way to find out.
        except ServiceError as error:
            completion = CompletionUnknown(str(error))
        if not _is_retryable(completion) or (pause := next(pauses, None)) is None:
            return completion
        if backend.get_time() - began > RETRY_BUDGET_SECONDS:
            return completion
        yield backend.sleep(pause)


def wait_until_ended(backend: Backend, payment: PendingPayment, request: PaidRequest | None) -> Flow[bool]:
    """Wait for the end of a payment that settles, as long as its request may.

    Return whether it ended in time to complete. Only a completion proves the payment.
    """
    if request is None or request.settle_wait <= 0:
        return False
    now = backend.get_time()
    until = min(now + request.settle_wait, request.last_call_at)
    pauses: Iterator[float] = chain(SETTLE_PAUSES, repeat(SETTLE_PAUSES[-1]))
    for pause in pauses:
        if now + pause > until:
            return False
        has_waited: bool = yield backend.wait_for_settlement(pause)
        if not has_waited:
            return False
        try:
            state: TransactionReply = yield backend.get_transaction_state(payment.transaction_id)
        except ServiceError:
            return False
        now = backend.get_time()
        if state is not TransactionState.PENDING:
            has_ended = isinstance(state, TransactionSettled) or state is TransactionState.FAILED
            return has_ended and now <= request.last_call_at
    return False


def _is_retryable(completion: Completion) -> bool:
    # Repeating the call would give the same 4xx.
    if isinstance(completion, CompletionRejected):
        return completion.status >= 500
    return isinstance(completion, CompletionUnknown)


# Writes to the journal afterwards. An error in one of these changes nothing for the payer.


def hold(backend: Backend, payment: PendingPayment, state: OpenPayment) -> Flow[Settlement]:
    """Keep the row for the payer or the sweep, until it is older than `JournalPolicy.max_age`."""
    # A row that could not be written is kept, too: its lease is given back later, and it is due then.
    if not (yield from schedule_retry(backend, payment)):
        return (yield from _report_stuck(backend, payment, state, f"still open: {state.reason}"))
    yield backend.emit_event(Held(payment.transaction_id, state.reason, payment.sale))
    return state


def _handle_refusal(
    backend: Backend,
    payment: PendingPayment,
    state: OpenPayment,
    rejection: CompletionRejected,
    sticks_if_refused: bool,
) -> Flow[Settlement]:
    """Hold the payment for a later retry.

    It is stuck if an earlier attempt wrote the outcome and the refusal is about the transaction: the service
    would refuse it again.
    """
    if sticks_if_refused and rejection.is_about_the_transaction:
        return (yield from mark_stuck(backend, payment, state))
    return (yield from hold(backend, payment, state))


def mark_stuck(backend: Backend, payment: PendingPayment, state: OpenPayment) -> Flow[Settlement]:
    """Keep the row for an operator: the sweep need not come back."""
    mark = partial(backend.journal.mark_stuck, payment.lease, state.reason)
    yield from _write(backend, "mark the payment as stuck", mark, None, payment.transaction_id)
    return (yield from _report_stuck(backend, payment, state, state.reason))


def _report_stuck(
    backend: Backend, payment: PendingPayment, state: OpenPayment, reason: str
) -> Flow[Settlement]:
    yield backend.log_warning(
        f"an operator must resolve this: {reason} (faregate holds)", payment.transaction_id
    )
    yield backend.emit_event(Stuck(payment.transaction_id, reason, payment.sale))
    return StuckPayment(state, reason)


def close_unpaid(backend: Backend, payment: PendingPayment, code: str) -> Flow[Settlement]:
    """End the row: nothing was charged, for certain."""
    # Emit the event also if the journal cannot be written: perhaps no other worker ever will.
    if (yield from _record_final(backend, payment, reason=code)):
        yield backend.emit_event(Failed(payment.transaction_id, code, payment.sale))
    return PaymentFailed(code)


def close_paid(backend: Backend, payment: PendingPayment, receipt: str, reason: str) -> Flow[Settlement]:
    """End the row: the payer was charged, and there is no result to deliver, for this reason."""
    if (yield from _record_final(backend, payment, paid=True, reason=reason, receipt=receipt)):
        payment = describe_receipt(payment, receipt)
        yield backend.emit_event(Settled(payment.transaction_id, sale=payment.sale))
    return PaidWithoutResult()


def schedule_retry(backend: Backend, payment: PendingPayment) -> Flow[bool]:
    """Give the lease back; the row stays open. False: the row is stuck, as of now or from before."""
    schedule = partial(backend.journal.schedule_retry, payment.lease)
    action = "schedule a retry of the payment"
    return (yield from _write(backend, action, schedule, True, payment.transaction_id))


def postpone(backend: Backend, payment: PendingPayment) -> Flow[None]:
    """Give the lease back, and make the row due much later: another seller has to finish it."""
    put_off = partial(backend.journal.postpone, payment.lease)
    yield from _write(backend, "postpone the payment", put_off, None, payment.transaction_id)


def abandon_claim(backend: Backend, lease: Lease, transaction_id: str | None = None) -> Flow[None]:
    """Give up a claim for which no work was started."""
    abandon = partial(backend.journal.abandon_claim, lease)
    yield from _write(backend, "give up the claim", abandon, False, transaction_id)


def _record_settlement(
    backend: Backend, payment: PendingPayment, payment_response: str, receipt: str, delivered: bool
) -> Flow[SettlementWrite]:
    """Write what proves the payment before the first byte leaves.

    `delivered`: a payer waits, and the result leaves next. If it cannot be written, the sale is counted here:
    perhaps no other worker ever will.
    """
    record = partial(backend.journal.record_settlement, payment.lease, payment_response, receipt, delivered)
    action, otherwise = "record the settlement", SettlementWrite.FIRST
    return (yield from _write(backend, action, record, otherwise, payment.transaction_id))


def _record_final(
    backend: Backend, payment: PendingPayment, *, paid: bool = False, reason: str, receipt: str = ""
) -> Flow[bool]:
    """Record that the payment has ended. `paid` False: it failed for certain, and the payer may pay again."""
    record = partial(backend.journal.record_final, payment.lease, paid, reason, receipt)
    return (yield from _write(backend, "record the end of the payment", record, True, payment.transaction_id))


def _write(
    backend: Backend,
    action: str,
    write: Callable[[], MaybeAwaitable[T]],
    otherwise: T,
    transaction_id: str | None,
) -> Flow[T]:
    """Write to the journal. If that fails, log that it could not do `action`, and return `otherwise`.

    A row that is not written stays open, and the sweep ends it.
    """
    try:
        written: T = yield write()
    except Exception as error:
        yield backend.log_warning(f"the journal could not {action}: {error}", transaction_id)
        return otherwise
    return written
