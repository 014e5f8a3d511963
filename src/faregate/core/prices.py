"""Ask what an offer costs, without a payment: only the service's 402 says it. Pure."""

from faregate.core.models import HandlerResult, Offer, PaidRequest, Request, Response
from faregate.core.results import AccessFree, AccessUnpaid
from faregate.core.steps import CallAccess, CloseExecution, Flow, ResolveOffer


def ask_price(offer: Offer, resource_url: str) -> Flow[Response | None]:
    """Return the 402 of an offer; None if access is answered otherwise. Free access is closed again.

    Raises `FaregateError`.
    """
    revision = yield from ResolveOffer(offer)
    request = PaidRequest(offer, Request("GET", "/", ()), resource_url, 1, 1)
    access = yield from CallAccess(request, revision, None)
    if isinstance(access, AccessUnpaid):
        return access.response
    if isinstance(access, AccessFree) and access.execution_id is not None:
        yield from CloseExecution(access.execution_id, revision, HandlerResult(Response(200), {}))
    return None
