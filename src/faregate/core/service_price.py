"""Ask what an offer costs, without a payment: only the service's 402 says it. Pure."""

from faregate.core.interfaces import Backend, Flow
from faregate.core.models import HandlerResult, Offer, OfferRevision, PaidRequest, Request, Response
from faregate.core.results import Access, AccessFree, AccessUnpaid


def ask_price(backend: Backend, offer: Offer, resource_url: str) -> Flow[Response | None]:
    """Return the 402 of an offer; None if access is answered otherwise. Free access is closed again.

    Raises `FaregateError`.
    """
    revision: OfferRevision = yield backend.resolve_offer(offer)
    request = PaidRequest(offer, Request("GET", "/", ()), resource_url, 1, 1)
    access: Access = yield backend.call_access(request, revision, None)
    if isinstance(access, AccessUnpaid):
        return access.response
    if isinstance(access, AccessFree) and access.execution_id is not None:
        yield backend.close_execution(access.execution_id, revision, HandlerResult(Response(200), {}))
    return None
