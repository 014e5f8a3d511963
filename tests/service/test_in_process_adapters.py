"""Every adapter sells with the service inside the process, blocking and async, at the price of the code."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask import Flask

from tests import django_site

django_site.ready()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.urls import path  # noqa: E402
from mcp.client import Client  # noqa: E402
from mcp.server import MCPServer  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.middleware import Middleware  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import JSONResponse  # noqa: E402
from starlette.routing import Route  # noqa: E402

from faregate import Offer, Payment, Paywall, Usage, asgi, wsgi  # noqa: E402
from faregate.django import paid as paid_in_django  # noqa: E402
from faregate.django.conf import get_config  # noqa: E402
from faregate.emulator.wallet import Wallet  # noqa: E402
from faregate.flask import Faregate, payment  # noqa: E402
from faregate.mcp import add_paywall  # noqa: E402
from faregate.mcp import paid as paid_in_mcp  # noqa: E402
from faregate.starlette import PaywallMiddleware, paid  # noqa: E402
from tests.adapters import mcp_shop  # noqa: E402
from tests.adapters.django_views import PAYWALL  # noqa: E402
from tests.servers.http import serving, serving_wsgi  # noqa: E402
from tests.service.in_process import Buyer, build_environ, open_paywall  # noqa: E402
from tests.service.test_in_process import count_sales, list_amounts  # noqa: E402
from tests.support.headers import decode_header  # noqa: E402

PRICED = Offer("daily_report", price="0.05 USDC")
RESULT = {"report": "sunny"}


def buy(url: str) -> None:
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        bought = Buyer(client, Wallet()).buy()
        assert bought.status_code == 200, bought.text
        assert bought.json() == RESULT


def check_books(environ: dict[str, str]) -> None:
    assert count_sales(environ) == (1, 1)
    assert list_amounts(environ) == [50_000]


def test_starlette(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)

    @paid("daily_report", price="0.05 USDC")
    async def report(_request: Request) -> JSONResponse:
        return JSONResponse(RESULT)

    paywall = Middleware(PaywallMiddleware, paywall=Paywall(environ=environ))
    with serving(Starlette(routes=[Route("/report", report)], middleware=[paywall])) as url:
        buy(url)
    check_books(environ)


def test_asgi_prefix(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    paywall, free = Paywall(environ=environ), JSONResponse(RESULT)
    with serving(asgi.PaywallMiddleware(free, paywall, offers={"/report": PRICED})) as url:
        buy(url)
    check_books(environ)


def test_asgi_require_payment(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await asgi.require_payment(scope, PRICED)
            await JSONResponse(RESULT)(scope, receive, send)

    with serving(asgi.PaywallMiddleware(app, Paywall(environ=environ))) as url:
        buy(url)
    check_books(environ)


def test_wsgi(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)

    def app(request: Any, start_response: Any) -> list[bytes]:
        wsgi.require_payment(request, PRICED)
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b'{"report":"sunny"}']

    with open_paywall(environ) as paywall, serving_wsgi(wsgi.PaywallMiddleware(app, paywall)) as url:
        buy(url)
    check_books(environ)


@paid_in_django("daily_report", price="0.05 USDC")
def report_view(_request: HttpRequest) -> JsonResponse:
    return JsonResponse(RESULT)


@paid_in_django("daily_report", price="0.05 USDC")
async def async_report_view(_request: HttpRequest) -> JsonResponse:
    return JsonResponse(RESULT)


@contextmanager
def serve_django(kind: str) -> Generator[str]:
    if kind == "wsgi":
        with serving_wsgi(get_wsgi_application()) as url:
            yield url
    else:
        with serving(get_asgi_application(), lifespan="off") as url:
            yield url


@pytest.mark.parametrize("kind", ["wsgi", "asgi"])
def test_django(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = build_environ(tmp_path)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    view = report_view if kind == "wsgi" else async_report_view
    settings = {"PUBLIC_URL": "https://seller.example"}
    with override_settings(FAREGATE=settings, MIDDLEWARE=[PAYWALL], ROOT_URLCONF=(path("report", view),)):
        with serve_django(kind) as url:
            buy(url)
        get_config().paywall.close()
    check_books(environ)


@pytest.mark.anyio
async def test_mcp(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    server: MCPServer[Any] = MCPServer("shop")
    paywall = Paywall(environ=environ, public_url="https://seller.example")
    add_paywall(server, paywall)

    @server.tool()
    @paid_in_mcp("daily_report", price="0.05 USDC")
    async def report() -> str:
        return "sunny"

    async with Client(server) as client:
        bought = await mcp_shop.Buyer(client, Wallet()).buy("report")
        assert mcp_shop.text_of(bought) == "sunny"
    await paywall.aclose()
    check_books(environ)


USAGE = Usage(at_most="0.10 USDC", rates={"rows": "0.001 USDC"})


@pytest.mark.anyio
async def test_mcp_charges_what_was_used(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    server: MCPServer[Any] = MCPServer("shop")
    paywall = Paywall(environ=environ, public_url="https://seller.example")
    add_paywall(server, paywall)

    @server.tool()
    @paid_in_mcp("rows", price=USAGE)
    async def search(rows: int, payment: Payment) -> str:
        if rows:
            payment.report({"rows": rows})
        return f"{rows} of {payment.maximum_atomic}"

    async with Client(server) as client:
        buyer = mcp_shop.Buyer(client, Wallet())
        bought = await buyer.buy("search", {"rows": 7})
        assert mcp_shop.text_of(bought) == "7 of 100000"
        assert (bought.meta or {})[mcp_shop.RECEIPT]["amount"] == "7000"
        assert mcp_shop.said(await buyer.buy("search", {"rows": 0}))["code"] == "invalid_usage"
    await paywall.aclose()
    assert count_sales(environ) == (2, 1)


def test_flask_charges_what_was_used(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    app, extension = Flask("seller"), Faregate()

    @app.get("/report")
    @extension.paid("rows", price=USAGE)
    def report() -> dict[str, Any]:
        payment.report(rows="2.5")
        return {"maximum": payment.maximum_atomic}

    with open_paywall(environ) as paywall:
        extension.init_app(app, paywall)
        bought = Buyer(app.test_client(), Wallet()).buy()
        assert bought.get_json() == {"maximum": 100_000}
        assert decode_header(bought.headers["payment-response"])["amount"] == "2500"
    assert count_sales(environ) == (1, 1)


@pytest.mark.parametrize("kind", ["wsgi", "asgi"])
def test_django_charges_what_was_used(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = build_environ(tmp_path)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    @paid_in_django("rows", price=USAGE)
    def view(request: Any) -> JsonResponse:
        request.payment.report(rows=3)
        return JsonResponse({"maximum": request.payment.maximum_atomic})

    settings = {"PUBLIC_URL": "https://seller.example"}
    with override_settings(FAREGATE=settings, MIDDLEWARE=[PAYWALL], ROOT_URLCONF=(path("report", view),)):
        with serve_django(kind) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            bought = Buyer(client, Wallet()).buy()
        get_config().paywall.close()
    assert bought.json() == {"maximum": 100_000}
    assert decode_header(bought.headers["payment-response"])["amount"] == "3000"
    assert count_sales(environ) == (1, 1)
