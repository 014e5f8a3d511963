"""Recover unfinished payments, for a payer who comes back or for the sweep.

The rules are at the top of `faregate.core.flow`. A `Response` is what the payer gets; None means that the
payment failed for certain.
"""

from faregate.core import responses
from faregate.core.claims import PendingPayment
from faregate.core.models import Failed, Response, Succeeded
from faregate.core.results import TransactionState
from faregate.core.settlement import close, close_as_paid, decided, hold, settle, stick, tell_failed, written
from faregate.core.steps import (
    AbandonClaim,
    Flow,
    GetTransaction,
    LeaseNext,
    LogWarning,
    Postpone,
    ScheduleRetry,
)
from faregate.errors import BadAnswer, Forbidden, ServiceError, TransactionNotFound

BATCH = 1000
"""Rows looked at in one walk, so that a walk has an end."""


def redeem(entry: PendingPayment, *, awaited: bool) -> Flow[Response | None]:
    """Bring an owed row nearer to its end; `awaited` if its payer waits for the answer."""
    if entry.foreign and not (yield from _is_known_to_service(entry)):
        yield from LogWarning(
            "begun under another API key, whose seller has to finish it", entry.transaction_id
        )
        yield from written(Postpone(entry.lease), entry.transaction_id)
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
    while len(seen) < limit and (entry := (yield from LeaseNext())) is not None:
        if entry.lease.key in seen:
            # So slow is the service that the first rows are due again: enough for this time.
            yield from _give_back(entry)
            break
        seen.add(entry.lease.key)
        yield from redeem(entry, awaited=False)
    return len(seen)


def _give_back(entry: PendingPayment) -> Flow[None]:
    try:
        yield from ScheduleRetry(entry.lease)
    except Exception as error:
        yield from LogWarning(f"the journal missed ScheduleRetry: {error}", entry.transaction_id)


def _push(entry: PendingPayment, outcome: Succeeded, awaited: bool) -> Flow[Response | None]:
    """A GET informs whether repeating complete is worth it; complete proves."""
    match (yield from _standing(entry)):
        case (
            TransactionState.SUCCEEDED
            | TransactionState.AUTHORIZED
            | TransactionState.UNKNOWN
            | TransactionState.UNNAMED
        ):
            return (yield from settle(entry, outcome, repeated=True, awaited=awaited))
        case TransactionState.CONTRADICTORY:
            # To wait for another GET could be for ever. A refusal says nothing of a payment that looks taken.
            return (yield from settle(entry, outcome, repeated=False, awaited=awaited))
        case TransactionState.FAILED:
            yield from close(entry, "payment_failed")
            return None
        case TransactionState.PENDING:
            yield from hold(entry, "settling")
            return responses.settling(entry.transaction_id)
        case None:
            yield from hold(entry, "not known how it stands")
            return responses.unconfirmed(entry.transaction_id)


def _give_up(entry: PendingPayment, outcome: Failed) -> Flow[Response | None]:
    if not (yield from decided(entry, outcome)):
        return responses.unconfirmed(entry.transaction_id)
    return (yield from _report(entry, outcome, repeated=False))


def _report(entry: PendingPayment, outcome: Failed, *, repeated: bool) -> Flow[Response | None]:
    """The work gave nothing to sell. Where the service knows of an end already, nothing is reported."""
    match (yield from _standing(entry)):
        case TransactionState.FAILED:
            yield from close(entry, outcome.code)
            return None
        case TransactionState.SUCCEEDED:
            yield from LogWarning("a payment settled whose work is reported as failed", entry.transaction_id)
            yield from close_as_paid(entry)
            return responses.already_used(entry.transaction_id)
        case TransactionState.PENDING | TransactionState.CONTRADICTORY:
            yield from hold(entry, "settling")
            return responses.unconfirmed(entry.transaction_id)
        case None:
            yield from hold(entry, "not known how it stands")
            return responses.unconfirmed(entry.transaction_id)
        case _:
            return (yield from tell_failed(entry, outcome, repeated=repeated))


def _watch(entry: PendingPayment) -> Flow[Response | None]:
    """A payment that access found settling: there is no work of ours to complete."""
    match (yield from _standing(entry)):
        case TransactionState.FAILED:
            yield from close(entry, "payment_failed")
            return None
        case TransactionState.SUCCEEDED:
            # It was paid and its result is not here, so a new payment would be worse.
            yield from LogWarning("a payment settled whose result is not here", entry.transaction_id)
            yield from close_as_paid(entry)
            return responses.already_used(entry.transaction_id)
        case TransactionState.AUTHORIZED:
            # Open after all: nothing of ours was started, so its payer may begin anew.
            yield from written(AbandonClaim(entry.lease), entry.transaction_id)
            return responses.settling(entry.transaction_id)
        case TransactionState.UNKNOWN:
            yield from stick(entry, "the service does not know the transaction")
            return responses.unconfirmed(entry.transaction_id)
        case _:
            yield from hold(entry, "settling")
            return responses.settling(entry.transaction_id)


def _is_known_to_service(entry: PendingPayment) -> Flow[bool]:
    """Whether the service shows the transaction to our API key: then the key was replaced, and it is ours.

    The payer's proof is sent under no other seller's key to find that out.
    """
    try:
        yield from GetTransaction(entry.transaction_id)
    except ServiceError:
        return False
    return True


def _standing(entry: PendingPayment) -> Flow[TransactionState | None]:
    """How the payment stands; None if that is unknown now. An answer that cannot be read tells nothing."""
    try:
        return (yield from GetTransaction(entry.transaction_id))
    except TransactionNotFound:
        return TransactionState.UNKNOWN
    except Forbidden:
        return TransactionState.UNNAMED
    except BadAnswer as error:
        yield from LogWarning(f"how the payment stands cannot be read: {error}", entry.transaction_id)
        return TransactionState.UNNAMED
    except ServiceError as error:
        yield from LogWarning(f"how the payment stands is unknown: {error}", entry.transaction_id)
        return None
