"""Completions that are taken: how they end, what is told again, and what a change of mind gets."""

from faregate.core.models import Response
from faregate.core.results import CompletionPaid, CompletionUnpaid
from faregate.errors import BadAnswer
from faregate.merchant.answers import CompletionResult
from faregate.merchant.interpret import read_completion
from faregate.merchant.wire import parse
from faregate.probe.fixtures import PENDING, Visit
from faregate.probe.verdicts import CannotSee, Check, Seen, judged, refused, said, shown


def _succeeded(visit: Visit) -> Seen:
    sold = visit.sold
    if said(sold.proving, "status") == "failed":
        raise CannotSee("the payment of work that succeeded failed: is there money?")
    proven = _meaning(sold.proving, sold.bought.id) == "proven"
    fits = proven and said(sold.proving, "payment_response") == sold.proving.first("payment-response")
    return judged(fits, f"{_status(sold.proving)}, {'proven' if fits else 'not proven'}")


def _failed(visit: Visit) -> Seen:
    bought, reply = visit.failed
    fits = _meaning(reply, bought.id) == "not paid" and _result(reply) is not None
    return judged(fits, _status(reply))


def _no_metadata(visit: Visit) -> Seen:
    return _left_out(visit, "resource_execution")


def _no_required_value(visit: Visit) -> Seen:
    if visit.sold.bought.ware.values:
        raise CannotSee("the revision that is bought requires a value")
    return _left_out(visit, "values")


def _left_out(visit: Visit, name: str) -> Seen:
    """Whether a report without it was taken."""
    sold = visit.sold
    if not sold.taken:
        raise CannotSee(f"no report of success was taken: {shown(sold.proving)}")
    return judged(name not in sold.told, "taken only with it" if name in sold.told else "taken without it")


def _again(visit: Visit) -> Seen:
    bought, first = visit.final, visit.sold.proving
    reply = visit.bench.complete(bought, bought.succeeded(**visit.sold.told))
    same = (reply.status, reply.body) == (first.status, first.body) or _same(first, reply)
    told = reply.first("payment-response") == said(reply, "payment_response")
    return judged(same and told, f"{_status(reply)}, {'the same' if same and told else 'not the same'}")


def _other_outcome(visit: Visit) -> Seen:
    bought = visit.final
    return refused(visit.bench.complete(bought, bought.failed()), 409, "invalid_request")


def _settling(visit: Visit) -> Seen:
    reply = visit.late.completed
    result = _result(reply)
    empty = result is not None and (result.payment_response, result.receipt, result.transaction_hash)
    fits = result is not None and result.status in PENDING and empty == (None, None, None)
    clean = reply.status == 202 and fits and reply.first("payment-response") is None
    return judged(clean, _status(reply))


def _again_settling(visit: Visit) -> Seen:
    late = visit.late
    result = _result(late.completed_again)
    fits = late.completed_again.status in (200, 202) and result is not None
    own = result is not None and result.transaction_id == late.bought.id
    return judged(fits and own, _status(late.completed_again))


def _meaning(reply: Response, transaction_id: str) -> str:
    """By the client's own rules of what proves a payment."""
    try:
        meaning = read_completion(reply, transaction_id)
    except BadAnswer:
        return "unreadable"
    if isinstance(meaning, CompletionPaid):
        return "proven"
    return "not paid" if isinstance(meaning, CompletionUnpaid) else "neither"


def _result(reply: Response) -> CompletionResult | None:
    """The result with all of its five fields, or None."""
    try:
        return parse(CompletionResult, reply)
    except BadAnswer:
        return None


def _same(one: Response, other: Response) -> bool:
    first, second = _result(one), _result(other)
    return first is not None and first == second


def _status(reply: Response) -> str:
    status = said(reply, "status")
    return f"{shown(reply)} {status:.40}" if isinstance(status, str) else shown(reply)


CHECKS = (
    Check("complete-succeeded", "contract", "200 succeeded, receipt, PAYMENT-RESPONSE", _succeeded),
    Check("complete-failed", "contract", "200 failed, three nulls", _failed),
    Check("complete-no-metadata", "decision", "resource_execution is optional", _no_metadata),
    Check("complete-empty-values", "decision", "values may be empty if none is required", _no_required_value),
    Check("complete-again-final", "decision", "the stored result", _again),
    Check("complete-other-outcome", "decision", "409 invalid_request", _other_outcome),
    Check("complete-settling", "decision", "202 with a result: pending, three nulls", _settling),
    Check("complete-again-settling", "decision", "202 or 200, how it stands now", _again_settling),
)
