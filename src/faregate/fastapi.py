"""The paywall for FastAPI: the middleware, and `Depends(paid(...))` on a route, router or app.

app = FastAPI()
app.add_middleware(PaywallMiddleware)

@app.get("/summary")
async def summary(payment: Annotated[Payment, Depends(paid("text_summary"))]): ...
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Unpack

try:
    from fastapi import HTTPException
    from fastapi.openapi.models import APIKey, APIKeyIn
    from fastapi.requests import HTTPConnection
    from fastapi.routing import iter_route_contexts
    from fastapi.security.base import SecurityBase
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.fastapi needs FastAPI: pip install 'faregate[fastapi]'", name=error.name
    ) from error

from starlette.routing import BaseRoute, Route

from faregate import stock
from faregate.gate import PaymentStop
from faregate.inventory import Inventory
from faregate.model import Offer
from faregate.openapi import INFO, MARK, payment_info
from faregate.payment import Payment
from faregate.paywall import Limits, offer
from faregate.starlette import PaywallMiddleware, document, enter

__all__ = ["Paid", "Payment", "PaywallMiddleware", "document", "inventory_of", "paid"]


class Paid(SecurityBase):
    """A dependency that sells what the route answers, and gives it its `Payment`.

    It declares itself as a security scheme because that costs a request nothing; the paywall turns
    the declaration into what it is, a header parameter with the answers a payer gets (`faregate.openapi`).
    """

    def __init__(self, sold: Offer) -> None:
        self.faregate_offer = sold
        scheme = {"in": APIKeyIn.header, "name": "PAYMENT-SIGNATURE", INFO: payment_info(sold)}
        self.model = APIKey.model_validate(scheme)
        self.scheme_name = f"{MARK}{sold.sells}"

    async def __call__(self, connection: HTTPConnection) -> Payment:
        try:
            return await enter(connection, self.faregate_offer)
        except PaymentStop as stop:
            # Nobody sees this answer: the paywall sends its own in its place.
            raise HTTPException(stop.status) from None


def paid(sells: str, **limits: Unpack[Limits]) -> Paid:
    """What a route depends on to be sold: `Depends(paid("text_summary"))`.

    `sells` is an integration key or an `acr_` revision id. The route's OpenAPI operation gets the
    answers of a payment. Raises `Misconfigured`, here or on the first call.
    """
    return Paid(offer(sells, **limits))


def inventory_of(app: Any) -> Inventory:
    """What a FastAPI application or router sells. Raises `Misconfigured`."""
    return stock.inventory_of(app, _expanded)


def _expanded(router: Any) -> Iterator[tuple[type[BaseRoute], Any]]:
    """Included routers are kept as such: what their routes are is known where they are included."""
    for context in iter_route_contexts(router.routes):
        yield type(context.original_route), context
    for group in getattr(router, "_iter_low_priority_routes", tuple)():
        yield from _frontends(group)


def _frontends(group: Any) -> Iterator[tuple[type[BaseRoute], Any]]:
    """`app.frontend(...)`: files below a path, answered when no route is."""
    prefix = getattr(group, "frontend_prefix", "")
    for one in getattr(group, "original_route", group).routes:
        path = f"{prefix}{one.path.rstrip('/')}/{{path:path}}"
        yield (
            Route,
            SimpleNamespace(
                path=path, methods=one.methods, endpoint=one.app, app=None, dependant=group.dependant
            ),
        )
