"""A browser in front of a paid route: preflights need no payment, and it may read the payment headers."""

from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

import faregate.fastapi
from faregate.core.responses import EXPOSED
from faregate.emulator import Emulator, Wallet
from faregate.starlette import PaywallMiddleware
from tests.adapters.asgi import CONTENT, a_paywall, calling, report

ORIGIN = {"Origin": "https://shop.example"}
PREFLIGHT = {
    **ORIGIN,
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "payment-signature",
}
PAYMENT_HEADERS = {"payment-required", "payment-response", "faregate-transaction", "retry-after"}


def seller(kind: str, emulator: Emulator, **cors: Any) -> Any:
    """The paywall with CORS outside of it, as the docs put them."""
    options: dict[str, Any] = {"allow_origins": ["https://shop.example"], **cors}
    options.setdefault("allow_headers", ["PAYMENT-SIGNATURE"])
    if kind == "fastapi":
        app = FastAPI()
        app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall(emulator))
        app.add_middleware(CORSMiddleware, **options)
        sold = Depends(faregate.fastapi.paid("daily_report"))
        app.add_api_route("/report", lambda: CONTENT, dependencies=[sold])
        return app
    layers = [
        Middleware(CORSMiddleware, **options),
        Middleware(PaywallMiddleware, paywall=a_paywall(emulator)),
    ]
    return Starlette(routes=[Route("/report", report)], middleware=layers)


@pytest.fixture(params=["starlette", "fastapi"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def exposed(answer: httpx.Response) -> set[str]:
    """What a script may read of this answer beside the few headers it always may."""
    return {name.strip().lower() for name in answer.headers["access-control-expose-headers"].split(",")}


def test_a_preflight_passes_and_asks_nobody(kind: str) -> None:
    emulator = Emulator()
    with calling(seller(kind, emulator)) as http:
        answer = http.options("/report", headers=PREFLIGHT)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://shop.example"
    assert "payment-signature" in answer.headers["access-control-allow-headers"].lower()
    assert [call.path for call in emulator.calls()] == []


def test_a_browser_may_not_send_a_payment_unless_the_seller_allows_the_header(kind: str) -> None:
    with calling(seller(kind, Emulator(), allow_headers=[])) as http:
        assert http.options("/report", headers=PREFLIGHT).status_code == 400


@pytest.mark.parametrize("origins", [["https://shop.example"], ["*"]])
def test_the_payment_headers_can_be_read_without_saying_so(kind: str, origins: list[str]) -> None:
    """The paywall exposes them itself: on what it asks, and on what it releases."""
    with calling(seller(kind, Emulator(), allow_origins=origins)) as http:
        unpaid = http.get("/report", headers=ORIGIN)
        proof = Wallet().pay(unpaid.headers["payment-required"])
        released = http.get("/report", headers={**ORIGIN, "PAYMENT-SIGNATURE": proof})
    for answer, status in ((unpaid, 402), (released, 200)):
        assert (answer.status_code, exposed(answer)) == (status, PAYMENT_HEADERS)
        assert answer.headers["access-control-allow-origin"] == origins[0]


def test_a_list_of_the_sellers_own_replaces_ours(kind: str) -> None:
    with calling(seller(kind, Emulator(), expose_headers=["X-Own"])) as http:
        assert exposed(http.get("/report", headers=ORIGIN)) == {"x-own"}
    both = ["X-Own", *EXPOSED[1].split(", ")]
    with calling(seller(kind, Emulator(), expose_headers=both)) as http:
        assert exposed(http.get("/report", headers=ORIGIN)) == {"x-own", *PAYMENT_HEADERS}
