"""Report an outcome to the service, and decide what may leave afterwards.

The rules are at the top of `faregate.core.flow`. A `Response` is what the payer gets; None means that the
payment failed for certain, and only then may the payer be asked to pay again.
"""

from dataclasses import replace

from faregate.core import responses
from faregate.core.claims import PendingPayment
from faregate.core.models import Failed, Outcome, Response, Succeeded
from faregate.core.results import (
    Completion,
    CompletionPaid,
    CompletionPending,
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
)
from faregate.core.steps import (
    AbandonClaim,
    CallComplete,
    EmitEvent,
    Flow,
    GetTime,
    LogWarning,
    MarkStuck,
    Postpone,
    RecordFinal,
    RecordOutcome,
    RecordSettlement,
    ScheduleRetry,
    Sleep,
)
from faregate.errors import ServiceError
from faregate.events import Failed as PaymentFailed
from faregate.events import Held, Released, Settled, Stuck, Worked

_COOKIES = frozenset(("set-cookie", "set-cookie2"))

COMPLETE_PAUSES = (0.2, 0.8)
"""Seconds before the second and the third attempt to complete."""
RETRY_SECONDS = 3.0
"""Nothing is asked again later than so many seconds after it was first asked: a payer waits."""


def decide_and_settle(entry: PendingPayment, outcome: Succeeded) -> Flow[Response | None]:
    """Write the outcome, then tell it. Who could not write sends nothing."""
    if not (yield from decided(entry, _storable(outcome))):
        return responses.unconfirmed(entry.transaction_id)
    yield from EmitEvent(Worked(entry.transaction_id, outcome.result.status, outcome.duration_ms))
    return (yield from settle(entry, outcome, repeated=False, awaited=True))


def _storable(outcome: Succeeded) -> Succeeded:
    """The outcome as the journal keeps it: a cookie is for the first request alone, and is never replayed."""
    headers = tuple(pair for pair in outcome.result.headers if pair[0].lower() not in _COOKIES)
    return replace(outcome, result=replace(outcome.result, headers=headers))


def fail(entry: PendingPayment, code: str) -> Flow[Response | None]:
    """Decide `failed`, with a failure code, and tell the service."""
    if not (yield from decided(entry, Failed(code))):
        return responses.unconfirmed(entry.transaction_id)
    return (yield from tell_failed(entry, Failed(code), repeated=False))


def decided(entry: PendingPayment, outcome: Outcome) -> Flow[bool]:
    """Write the outcome; False: somebody else has the row, or whether it was written is unknown."""
    try:
        return (yield from RecordOutcome(entry.lease, outcome))
    except Exception as error:
        # Whether it was written is unknown: what the journal says later stands, nothing is sent now.
        yield from LogWarning(f"the journal could not decide: {error}", entry.transaction_id)
        return False


def settle(
    entry: PendingPayment, outcome: Succeeded, *, repeated: bool, awaited: bool
) -> Flow[Response | None]:
    """Complete; what the payer gets is decided here and nowhere else."""
    completion = yield from _complete(entry, outcome)
    match completion:
        case CompletionPaid(payment_response, receipt):
            # The payment is proven, whatever the journal says now.
            yield from EmitEvent(Settled(entry.transaction_id))
            ours = yield from _released(
                RecordSettlement(entry.lease, payment_response, receipt, awaited), entry
            )
            if awaited and not ours:
                # Somebody else took over and delivered it. This payer may come back for a replay.
                return responses.in_progress()
            if awaited:
                yield from EmitEvent(Released(entry.transaction_id))
            return responses.release(outcome.result, payment_response)
        case CompletionPending(reply):
            yield from hold(entry, "settling")
            return responses.pending(reply, entry.transaction_id)
        case CompletionUnpaid():
            yield from close(entry, "payment_failed")
            return None
        case CompletionRejected(status, code, retry_after):
            yield from LogWarning(f"completion was refused: {status} {code}", entry.transaction_id)
            yield from _hold_or_stick(entry, completion, repeated)
            return responses.denied(status, entry.transaction_id, retry_after)
        case CompletionUnknown(reason):
            yield from LogWarning(f"the payment is not proven: {reason}", entry.transaction_id)
            yield from hold(entry, "not proven")
            return responses.unconfirmed(entry.transaction_id)


def tell_failed(entry: PendingPayment, outcome: Failed, *, repeated: bool) -> Flow[Response | None]:
    """Report that the work gave nothing to sell."""
    completion = yield from _complete(entry, outcome)
    match completion:
        case CompletionUnpaid():
            yield from close(entry, outcome.code)
            return None
        case CompletionPaid():
            yield from LogWarning(
                "the service settled a payment that was reported as failed", entry.transaction_id
            )
            yield from close_as_paid(entry)
        case CompletionRejected(status, code):
            yield from LogWarning(f"a failed outcome was refused: {status} {code}", entry.transaction_id)
            yield from _hold_or_stick(entry, completion, repeated)
        case _:
            yield from LogWarning("a failed outcome is not acknowledged yet", entry.transaction_id)
            yield from hold(entry, "not acknowledged")
    return responses.unconfirmed(entry.transaction_id)


def _complete(entry: PendingPayment, outcome: Outcome) -> Flow[Completion]:
    """The first clear answer within the bounds."""
    began = yield from GetTime()
    completion = yield from _complete_once(entry, outcome)
    for pause in COMPLETE_PAUSES:
        if not _worth_repeating(completion) or (yield from GetTime()) - began > RETRY_SECONDS:
            break
        yield from Sleep(pause)
        completion = yield from _complete_once(entry, outcome)
    return completion


def _complete_once(entry: PendingPayment, outcome: Outcome) -> Flow[Completion]:
    try:
        return (yield from CallComplete(entry, outcome))
    except ServiceError as error:
        return CompletionUnknown(str(error))


def _worth_repeating(completion: Completion) -> bool:
    return isinstance(completion, CompletionUnknown) or (
        isinstance(completion, CompletionRejected) and completion.status >= 500
    )


# What the journal is told then. The payer's answer does not depend on it


def hold(entry: PendingPayment, reason: str) -> Flow[None]:
    """The row stays owed: until the payer or the sweep comes back, but not for ever."""
    try:
        kept = yield from ScheduleRetry(entry.lease)
    except Exception as error:
        kept = True
        yield from LogWarning(f"the journal missed ScheduleRetry: {error}", entry.transaction_id)
    if kept:
        yield from EmitEvent(Held(entry.transaction_id, reason))
    else:
        yield from _tell_stuck(entry, f"still open: {reason}")


def _hold_or_stick(entry: PendingPayment, refusal: CompletionRejected, repeated: bool) -> Flow[None]:
    """A service that says the same thing again about this transaction will not change its mind."""
    reason = f"completion was refused: {refusal.status} {refusal.code}"
    if not (repeated and refusal.is_about_the_transaction):
        yield from hold(entry, reason)
    else:
        yield from stick(entry, reason)


def stick(entry: PendingPayment, reason: str) -> Flow[None]:
    """The sweep need not come back."""
    yield from written(MarkStuck(entry.lease, reason), entry.transaction_id)
    yield from _tell_stuck(entry, reason)


def _tell_stuck(entry: PendingPayment, reason: str) -> Flow[None]:
    yield from LogWarning(f"nothing ends this but a person: {reason} (faregate holds)", entry.transaction_id)
    yield from EmitEvent(Stuck(entry.transaction_id, reason))


def close(entry: PendingPayment, code: str) -> Flow[None]:
    """Nothing was charged, for certain."""
    yield from written(RecordFinal(entry.lease), entry.transaction_id)
    yield from EmitEvent(PaymentFailed(entry.transaction_id, code))


def close_as_paid(entry: PendingPayment) -> Flow[None]:
    """It was charged, and there is nothing to hand out: whoever paid must not be asked to pay again."""
    yield from written(RecordFinal(entry.lease, paid=True), entry.transaction_id)
    yield from EmitEvent(Settled(entry.transaction_id))


def _released(step: RecordSettlement, entry: PendingPayment) -> Flow[bool]:
    """Whether the result may leave: the payment is proven, even if the journal cannot be written."""
    try:
        return (yield from step)
    except Exception as error:
        yield from LogWarning(f"the journal missed RecordSettlement: {error}", entry.transaction_id)
        return True


def written(
    step: AbandonClaim | Postpone | MarkStuck | RecordFinal, transaction_id: str | None = None
) -> Flow[None]:
    """Write what the payer's answer does not depend on."""
    try:
        yield from step
    except Exception as error:
        yield from LogWarning(f"the journal missed {type(step).__name__}: {error}", transaction_id)
