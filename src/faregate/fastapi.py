"""The paywall for FastAPI: the middleware, and `Depends(paid(...))` on a route, router or app.

app = FastAPI()
app.add_middleware(PaywallMiddleware)

@app.get("/summary")
async def summary(payment: Annotated[Payment, Depends(paid("text_summary"))]): ...
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Unpack

try:
    from fastapi import Header, HTTPException
    from fastapi.requests import HTTPConnection
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.fastapi needs FastAPI: pip install 'faregate[fastapi]'", name=error.name
    ) from error

from faregate.gate import PaymentStop
from faregate.openapi import SIGNATURE
from faregate.payment import Payment
from faregate.paywall import Limits, offer
from faregate.starlette import PaywallMiddleware, document, enter

__all__ = ["Payment", "PaywallMiddleware", "document", "paid"]

Signature = Annotated[
    str | None,
    Header(alias=SIGNATURE, description="Base64 proof of an x402 version 2 payment, made by the payer."),
]


def paid(sells: str, **limits: Unpack[Limits]) -> Callable[..., Awaitable[Payment]]:
    """A dependency that sells what the route answers, and gives it its `Payment`.

    `sells` is an integration key or an `acr_` revision id. The route's OpenAPI operation gets 402 and
    202 with their headers. Raises `Misconfigured`, here or on the first call.
    """
    sold = offer(sells, **limits)

    async def payment(connection: HTTPConnection, _signature: Signature = None) -> Payment:
        try:
            return await enter(connection, sold)
        except PaymentStop as stop:
            # Nobody sees this answer: the paywall sends its own in its place.
            raise HTTPException(stop.status) from None

    payment.__dict__["faregate_offer"] = sold
    return payment
