"""What was begun and not ended: brought nearer to its end by a payer who comes back, or by the sweep.

The rules stand at the top of `faregate.core.flow`. A `Response` is what the payer gets; None means the payment
failed for certain.
"""

from faregate.core import responses
from faregate.core.results import Standing
from faregate.errors import BadAnswer, Forbidden, ServiceError, TransactionNotFound
from faregate.core.models import Failed, Response, Succeeded
from faregate.core.claims import Entry
from faregate.core.settlement import close, close_as_paid, decided, hold, settle, stick, tell_failed, written
from faregate.core.steps import Drop, Flow, GetStanding, Hold, Note, Postpone, TakeDue

BATCH = 1000
"""Rows looked at in one walk, so that a walk has an end."""


def redeem(entry: Entry, *, awaited: bool) -> Flow[Response | None]:
    """Bring an owed row nearer to its end; `awaited` if its payer waits for the answer."""
    if entry.foreign and not (yield from _is_known_to_service(entry)):
        yield from Note("begun under another API key, whose seller has to finish it", entry.transaction_id)
        yield from written(Postpone(entry.ticket), entry.transaction_id)
        return responses.unconfirmed(entry.transaction_id)
    match entry.outcome:
        case Succeeded() as outcome:
            return (yield from _push(entry, outcome, awaited))
        case Failed() as outcome:
            return (yield from _report(entry, outcome, repeated=True))
        case None if entry.waiting:
            return (yield from _watch(entry))
        case None:
            return (yield from _give_up(entry, Failed("interrupted")))


def sweep(limit: int = BATCH) -> Flow[int]:
    """Redeem owed rows whose lease is over, each once; gives the number of rows looked at."""
    seen: set[bytes] = set()
    while len(seen) < limit and (entry := (yield from TakeDue())) is not None:
        if entry.ticket.key in seen:
            # So slow is the service that the first rows are due again: enough for this time.
            yield from _give_back(entry)
            break
        seen.add(entry.ticket.key)
        yield from redeem(entry, awaited=False)
    return len(seen)


def _give_back(entry: Entry) -> Flow[None]:
    try:
        yield from Hold(entry.ticket)
    except Exception as error:
        yield from Note(f"the journal missed Hold: {error}", entry.transaction_id)


def _push(entry: Entry, outcome: Succeeded, awaited: bool) -> Flow[Response | None]:
    """A GET informs whether repeating complete is worth it; complete proves."""
    match (yield from _standing(entry)):
        case Standing.SUCCEEDED | Standing.AUTHORIZED | Standing.UNKNOWN | Standing.UNNAMED:
            return (yield from settle(entry, outcome, repeated=True, awaited=awaited))
        case Standing.CONTRADICTORY:
            # To wait for another GET could be for ever. A refusal says nothing of a payment that looks taken.
            return (yield from settle(entry, outcome, repeated=False, awaited=awaited))
        case Standing.FAILED:
            yield from close(entry, "payment_failed")
            return None
        case Standing.PENDING:
            yield from hold(entry, "settling")
            return responses.settling(entry.transaction_id)
        case None:
            yield from hold(entry, "not known how it stands")
            return responses.unconfirmed(entry.transaction_id)


def _give_up(entry: Entry, outcome: Failed) -> Flow[Response | None]:
    if not (yield from decided(entry, outcome)):
        return responses.unconfirmed(entry.transaction_id)
    return (yield from _report(entry, outcome, repeated=False))


def _report(entry: Entry, outcome: Failed, *, repeated: bool) -> Flow[Response | None]:
    """The work gave nothing to sell. Where the service knows of an end already, nothing is reported."""
    match (yield from _standing(entry)):
        case Standing.FAILED:
            yield from close(entry, outcome.code)
            return None
        case Standing.SUCCEEDED:
            yield from Note("a payment settled whose work is reported as failed", entry.transaction_id)
            yield from close_as_paid(entry)
            return responses.already_used(entry.transaction_id)
        case Standing.PENDING | Standing.CONTRADICTORY:
            yield from hold(entry, "settling")
            return responses.unconfirmed(entry.transaction_id)
        case None:
            yield from hold(entry, "not known how it stands")
            return responses.unconfirmed(entry.transaction_id)
        case _:
            return (yield from tell_failed(entry, outcome, repeated=repeated))


def _watch(entry: Entry) -> Flow[Response | None]:
    """A payment that access found settling: there is no work of ours to complete."""
    match (yield from _standing(entry)):
        case Standing.FAILED:
            yield from close(entry, "payment_failed")
            return None
        case Standing.SUCCEEDED:
            # It was paid and its result is not here, so a new payment would be worse.
            yield from Note("a payment settled whose result is not here", entry.transaction_id)
            yield from close_as_paid(entry)
            return responses.already_used(entry.transaction_id)
        case Standing.AUTHORIZED:
            # Open after all: nothing of ours was started, so its payer may begin anew.
            yield from written(Drop(entry.ticket), entry.transaction_id)
            return responses.settling(entry.transaction_id)
        case Standing.UNKNOWN:
            yield from stick(entry, "the service does not know the transaction")
            return responses.unconfirmed(entry.transaction_id)
        case _:
            yield from hold(entry, "settling")
            return responses.settling(entry.transaction_id)


def _is_known_to_service(entry: Entry) -> Flow[bool]:
    """Whether the service shows the transaction to our API key: then the key was replaced, and it is ours.

    The payer's proof is sent under no other seller's key to find that out.
    """
    try:
        yield from GetStanding(entry.transaction_id)
    except ServiceError:
        return False
    return True


def _standing(entry: Entry) -> Flow[Standing | None]:
    """How the payment stands; None if that is unknown now. An answer that cannot be read tells nothing."""
    try:
        return (yield from GetStanding(entry.transaction_id))
    except TransactionNotFound:
        return Standing.UNKNOWN
    except Forbidden:
        return Standing.UNNAMED
    except BadAnswer as error:
        yield from Note(f"how the payment stands cannot be read: {error}", entry.transaction_id)
        return Standing.UNNAMED
    except ServiceError as error:
        yield from Note(f"how the payment stands is unknown: {error}", entry.transaction_id)
        return None
