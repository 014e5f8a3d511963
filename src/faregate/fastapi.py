"""The paywall for FastAPI: the middleware, and `Depends(paid(...))` on a route, router or app.

app = FastAPI()
app.add_middleware(PaywallMiddleware)

@app.get("/summary")
async def summary(payment: Annotated[Payment, Depends(paid("text_summary"))]): ...
"""

from typing import Unpack

try:
    from fastapi import HTTPException
    from fastapi.openapi.models import APIKey, APIKeyIn
    from fastapi.requests import HTTPConnection
    from fastapi.security.base import SecurityBase
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.fastapi needs FastAPI: pip install 'faregate[fastapi]'", name=error.name
    ) from error

from faregate.gate import PaymentStop
from faregate.model import Offer
from faregate.openapi import MARK
from faregate.payment import Payment
from faregate.paywall import Limits, offer
from faregate.starlette import PaywallMiddleware, document, enter

__all__ = ["Paid", "Payment", "PaywallMiddleware", "document", "paid"]


class Paid(SecurityBase):
    """A dependency that sells what the route answers, and gives it its `Payment`.

    It declares itself as a security scheme because that costs a request nothing; the paywall turns
    the declaration into what it is, a header parameter with 402 and 202 (`faregate.openapi`).
    """

    def __init__(self, sold: Offer) -> None:
        self.offer = sold
        self.model = APIKey.model_validate({"in": APIKeyIn.header, "name": MARK})
        self.scheme_name = MARK

    async def __call__(self, connection: HTTPConnection) -> Payment:
        try:
            return await enter(connection, self.offer)
        except PaymentStop as stop:
            # Nobody sees this answer: the paywall sends its own in its place.
            raise HTTPException(stop.status) from None


def paid(sells: str, **limits: Unpack[Limits]) -> Paid:
    """What a route depends on to be sold: `Depends(paid("text_summary"))`.

    `sells` is an integration key or an `acr_` revision id. The route's OpenAPI operation gets 402 and
    202 with their headers. Raises `Misconfigured`, here or on the first call.
    """
    return Paid(offer(sells, **limits))
