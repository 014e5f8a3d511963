"""Litestar strips the slash at the end of a path: both spellings reach the handler, and both are sold."""

from typing import Any

import litestar
import pytest
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from starlette.testclient import TestClient

from faregate.asgi import PaywallMiddleware, require_payment
from faregate.checkout.checkout import SkipHandler
from faregate.emulator import Wallet
from faregate.offers import offer
from tests.attacks.site import make_paywall

OFFER = offer("daily_report")


async def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
    try:
        await require_payment(connection.scope, OFFER)
    except SkipHandler as stop:
        raise HTTPException(status_code=stop.status) from None


def build_app(*, rewrites: str = "") -> Any:
    @litestar.get("/sold", guards=[guard])
    async def sold() -> str:
        return "content"

    seller: Any = litestar.Litestar([sold], openapi_config=None, logging_config=None)

    async def rewrite(scope: Any, receive: Any, send: Any) -> None:
        await seller({**scope, "path": rewrites} if rewrites else scope, receive, send)

    return PaywallMiddleware(rewrite, make_paywall())


@pytest.mark.parametrize("path", ["/sold", "/sold/"])
def test_litestar_sells_a_path_with_and_without_its_last_slash(path: str) -> None:
    client = TestClient(build_app(), "http://seller.example")
    unpaid = client.get(path)
    assert unpaid.status_code == 402
    proof = Wallet().pay(unpaid.headers["payment-required"])
    bought = client.get(path, headers={"PAYMENT-SIGNATURE": proof})
    assert (bought.status_code, bought.text) == (200, "content")
    assert "payment-response" in bought.headers


@pytest.mark.parametrize("path", ["/other", "/sold//", "//sold", "/sold/a"])
def test_any_other_path_is_refused(path: str) -> None:
    client = TestClient(build_app(rewrites="/sold"), "http://seller.example", raise_server_exceptions=False)
    answer = client.get(path)
    assert (answer.status_code, "payment-required" in answer.headers) == (502, False)
