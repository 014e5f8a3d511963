"""Decide what a handler's work is: a result to sell, or failed work, and what may leave of that. Pure.

What else may leave without a proven payment is decided in `core.withholding`.
"""

from faregate.core.models import HandlerResult, OfferRevision, PaidRequest, Response, WorkSucceeded
from faregate.core.reported_values import format_values
from faregate.core.withholding import build_unpaid, find_slash_redirect, is_harmless_error
from faregate.errors import NotBillable, ResultCutShort, WorkTimedOut

TOOK_TOO_LONG = "the work took longer than max_work_seconds, the time that its offer or the paywall gives it"


def decide_outcome(
    result: HandlerResult, request: PaidRequest, revision: OfferRevision
) -> WorkSucceeded | Response:
    """Decide what the work is: a result to sell, or a response that may leave unpaid.

    Raises `HandlerError` and `InvalidUsage` where it is neither.
    """
    # A handler in a thread cannot be cut off. If it ends too late, its payment may no longer be valid.
    if result.duration_ms > request.work_seconds * 1000:
        raise WorkTimedOut(TOOK_TOO_LONG)
    status = result.response.status
    hides_failure = result.is_replacement and not is_harmless_error(status)
    is_slash_redirect = status >= 300 and find_slash_redirect(result.response, request) is not None
    if status in request.billable and not hides_failure and not is_slash_redirect:
        _check_length(result.response, request.http.method)
        return WorkSucceeded(result.response, format_values(result.values, revision), result.duration_ms)
    unpaid = build_unpaid(result.response, request, was_result=result.was_result)
    if unpaid is not None:
        return unpaid
    if hides_failure:
        raise NotBillable(
            f"it raised or failed, and an error that is answered with {status} is no result. "
            "To sell that response, return it; put a login before the price"
        )
    raise NotBillable(
        f"its status {status} is not billable, and only errors leave unpaid. To sell it, name it in billable"
    )


def _check_length(response: Response, method: str) -> None:
    """Raise `ResultCutShort` for a body that is shorter than it was declared to be."""
    if method == "HEAD" or response.status in (204, 304):
        return
    for name, declared in response.headers:
        if name.lower() != "content-length" or not declared.isdecimal():
            continue
        if int(declared) > len(response.body):
            raise ResultCutShort(
                f"its body has {len(response.body)} bytes, and its Content-Length is {declared}"
            )
