"""The seller of every case, behind two adapters: one that awaits and one that blocks.

A case is known by its header `x-case`. What a handler did is told to its case.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import faregate.starlette
import faregate.wsgi
from faregate.checkout.checkout import SkipHandler
from faregate.core.reported_values import Payment
from faregate.offers import offer
from faregate.paywall import Paywall
from tests.support.usage_account import USED

CONTENT = "what is paid for"
NAMED = "/named"
SELLS = {
    "/paid": "daily_report",
    "/refusing": "daily_report",
    "/free": "free_notes",
    "/used": USED,
    NAMED: "daily_report",
}
"""`/refusing` gives nothing that is worth its price; that of `/used` follows what its handler reports.
The payer of `NAMED` names the purchase, and signs several payments for it.
"""
REPORTED = {"tokens": "1230"}
PRICES = {"/paid": 50_000, "/used": 12_300, NAMED: 50_000}
"""What is charged for a result, in atomic units."""


class Customer(Protocol):
    """A case, as the shop knows it: the paywall of its seller, and what was done for it."""

    paywall: Paywall

    def worked(self, payment: Payment) -> None: ...


class SellerApp:
    """One ASGI app and one WSGI app for all customers."""

    def __init__(self) -> None:
        self.customers: dict[str, Customer] = {}
        routes = [Route(path, self._selling(path, sells)) for path, sells in SELLS.items()]
        self._starlette = Starlette(routes=routes)
        self._offers = {path: offer(sells) for path, sells in SELLS.items()}

    async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
        name = next(value for header, value in scope["headers"] if header == b"x-case").decode()
        adapter = faregate.starlette.PaywallMiddleware(self._starlette, self.customers[name].paywall)
        await adapter(scope, receive, send)

    def _selling(self, path: str, sells: str) -> Any:
        @faregate.starlette.paid(sells)
        async def endpoint(request: Request) -> Response:
            self.customers[request.headers["x-case"]].worked(request.state.payment)
            report(path, request.state.payment)
            status, body = made(path)
            return JSONResponse(body, status, {"x-own": "1"})

        return endpoint

    def wsgi(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        customer = self.customers[environ["HTTP_X_CASE"]]
        return faregate.wsgi.PaywallMiddleware(self._plain, customer.paywall)(environ, start_response)

    def _plain(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        try:
            payment = faregate.wsgi.require_payment(environ, self._offers[path])
        except SkipHandler as stop:
            start_response(f"{stop.status} Stopped", [])
            return []
        self.customers[environ["HTTP_X_CASE"]].worked(payment)
        report(path, payment)
        response = JSONResponse(made(path)[1], made(path)[0])
        start_response(f"{response.status_code} Made", [("Content-Type", "application/json"), ("x-own", "1")])
        return [bytes(response.body)]


def report(path: str, payment: Payment) -> None:
    if path == "/used":
        payment.report(REPORTED)


def made(path: str) -> tuple[int, dict[str, str]]:
    """What the handlers answer."""
    return (404, {"said": "nothing here"}) if path == "/refusing" else (200, {"result": CONTENT})
