"""How an outcome reaches the service, and what may leave afterwards. The second half of the story.

The rules stand at the top of `faregate.flow`. Here, a `Response` is what the payer gets; None means
the payment failed for certain, and only then may the payer be asked to pay anew.
"""

from faregate import relay
from faregate.answers import Completion, Denied, NotPaid, Proven, Settling, Standing, Unproven
from faregate.errors import ServiceError
from faregate.model import Failed, Outcome, Response, Succeeded
from faregate.records import Entry
from faregate.steps import (
    Await,
    CallComplete,
    Close,
    Decide,
    Drop,
    Flow,
    GetStanding,
    Hold,
    Note,
    Release,
    TakeDue,
    Wait,
)

COMPLETE_PAUSES = (0.2, 0.8)
"""Seconds before the second and the third attempt to complete."""


def decide_and_settle(entry: Entry, outcome: Succeeded) -> Flow[Response | None]:
    """Write the outcome, then tell it. Who could not write sends nothing."""
    if not (yield from _decided(entry, outcome)):
        return relay.unconfirmed(entry.transaction_id)
    return (yield from _settle(entry, outcome, repeated=False, awaited=True))


def fail(entry: Entry, code: str) -> Flow[Response | None]:
    """Decide `failed`, with a failure code, and tell the service."""
    if not (yield from _decided(entry, Failed(code))):
        return relay.unconfirmed(entry.transaction_id)
    return (yield from _tell_failed(entry, Failed(code)))


def _decided(entry: Entry, outcome: Outcome) -> Flow[bool]:
    try:
        return (yield from Decide(entry.ticket, outcome))
    except Exception as error:
        # Whether it was written is unknown: what the journal says later stands, nothing is sent now.
        yield from Note(f"the journal could not decide: {error}", entry.transaction_id)
        return False


def finish(entry: Entry, *, awaited: bool) -> Flow[Response | None]:
    """Bring an owed row nearer to its end: for a payer who comes back (`awaited`), or for the sweep."""
    match entry.outcome:
        case Succeeded() as outcome:
            return (yield from _push(entry, outcome, awaited))
        case Failed() as outcome:
            return (yield from _tell_failed(entry, outcome))
        case None if entry.started:
            return (yield from fail(entry, "interrupted"))
        case None:
            return (yield from _watch(entry))


def sweep() -> Flow[int]:
    """Finish every owed row whose lease is over, each once; gives the number of rows looked at."""
    seen: set[bytes] = set()
    while (entry := (yield from TakeDue())) is not None:
        if entry.ticket.key in seen:
            # So slow is the service that the first rows are due again: enough for this time.
            yield from written(Hold(entry.ticket))
            break
        seen.add(entry.ticket.key)
        yield from finish(entry, awaited=False)
    return len(seen)


def _settle(entry: Entry, outcome: Succeeded, *, repeated: bool, awaited: bool) -> Flow[Response | None]:
    """Complete; what the payer gets is decided here and nowhere else."""
    completion, doubtful = yield from _complete(entry, outcome)
    match completion:
        case Proven(payment_response):
            # The payment is proven, whatever the journal says now.
            yield from written(Release(entry.ticket, payment_response, awaited))
            return relay.release(outcome.result, payment_response)
        case Settling(reply):
            yield from written(Hold(entry.ticket))
            return relay.pending(reply, entry.transaction_id)
        case NotPaid():
            yield from written(Close(entry.ticket))
            return None
        case Denied(status, code, retry_after):
            yield from Note(f"completion was refused: {status} {code}", entry.transaction_id)
            kept = repeated or doubtful or completion.may_settle_later
            yield from written(Hold(entry.ticket) if kept else Close(entry.ticket))
            return relay.denied(status, entry.transaction_id, retry_after)
        case Unproven(reason):
            yield from Note(f"the payment is not proven: {reason}", entry.transaction_id)
            yield from written(Hold(entry.ticket))
            return relay.unconfirmed(entry.transaction_id)


def _tell_failed(entry: Entry, outcome: Failed) -> Flow[Response | None]:
    completion, doubtful = yield from _complete(entry, outcome)
    match completion:
        case NotPaid():
            yield from written(Close(entry.ticket))
            return None
        case Proven():
            yield from Note("the service settled a payment that was reported as failed", entry.transaction_id)
            yield from written(Close(entry.ticket, paid=True))
        case Denied(status, code) if not (doubtful or completion.may_settle_later):
            yield from Note(f"a failed outcome was refused: {status} {code}", entry.transaction_id)
            yield from written(Close(entry.ticket))
        case _:
            yield from Note("a failed outcome is not acknowledged yet", entry.transaction_id)
            yield from written(Hold(entry.ticket))
    return relay.unconfirmed(entry.transaction_id)


def _complete(entry: Entry, outcome: Outcome) -> Flow[tuple[Completion, bool]]:
    """The first clear answer within the bound, and whether an earlier attempt was not clear."""
    completion = yield from _complete_once(entry, outcome)
    doubtful = False
    for pause in COMPLETE_PAUSES:
        if not _worth_repeating(completion):
            break
        doubtful = True
        yield from Wait(pause)
        completion = yield from _complete_once(entry, outcome)
    return completion, doubtful


def _complete_once(entry: Entry, outcome: Outcome) -> Flow[Completion]:
    try:
        return (yield from CallComplete(entry, outcome))
    except ServiceError as error:
        return Unproven(str(error))


def _worth_repeating(completion: Completion) -> bool:
    return isinstance(completion, Unproven) or (isinstance(completion, Denied) and completion.status >= 500)


def _push(entry: Entry, outcome: Succeeded, awaited: bool) -> Flow[Response | None]:
    """A GET informs whether repeating complete is worth it; complete proves."""
    match (yield from _standing(entry)):
        case Standing.SUCCEEDED | Standing.AUTHORIZED:
            return (yield from _settle(entry, outcome, repeated=True, awaited=awaited))
        case Standing.FAILED:
            yield from written(Close(entry.ticket))
            return None
        case Standing.PENDING:
            yield from written(Hold(entry.ticket))
            return relay.settling(entry.transaction_id)
        case None:
            yield from written(Hold(entry.ticket))
            return relay.unconfirmed(entry.transaction_id)


def _watch(entry: Entry) -> Flow[Response | None]:
    """A payment that settles without work of ours: it is only looked at until it is final."""
    match (yield from _standing(entry)):
        case Standing.FAILED:
            yield from written(Close(entry.ticket))
            return None
        case Standing.SUCCEEDED:
            # Paid for a result that this journal does not have: to ask for a new payment would be worse.
            yield from Note("a payment settled whose result is not here", entry.transaction_id)
            yield from written(Close(entry.ticket, paid=True))
            return relay.already_used(entry.transaction_id)
        case Standing.AUTHORIZED:
            # Open after all: nothing of ours was started, so its payer may begin anew.
            yield from written(Drop(entry.ticket))
            return relay.settling(entry.transaction_id)
        case _:
            yield from written(Hold(entry.ticket))
            return relay.settling(entry.transaction_id)


def _standing(entry: Entry) -> Flow[Standing | None]:
    try:
        return (yield from GetStanding(entry.transaction_id))
    except ServiceError as error:
        yield from Note(f"how the payment stands is unknown: {error}", entry.transaction_id)
        return None


def written(step: Await | Drop | Hold | Release | Close) -> Flow[None]:
    """Write what the payer's answer does not depend on."""
    try:
        yield from step
    except Exception as error:
        yield from Note(f"the journal missed {type(step).__name__}: {error}")
