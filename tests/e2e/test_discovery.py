"""Sellers that ask to be listed: what the official package lists of one payment, and a crawler's checker."""

import json
import re
import subprocess
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio import to_thread
from eth_account import Account
from examples.chain.typescript_payer import NoTypeScript, install_client
from fastapi import Depends, FastAPI
from flask import Flask, jsonify
from mcp.client import Client
from mcp.server import MCPServer
from openapi_spec_validator import validate
from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from x402 import x402Client, x402ClientSync
from x402.extensions.bazaar import extract_discovery_info
from x402.http import x402HTTPClientSync
from x402.mechanisms.evm.exact import ExactEvmScheme
from x402.schemas import parse_payment_required

import faregate.asgi
import faregate.fastapi
import faregate.flask
import faregate.mcp
import faregate.starlette
import faregate.wsgi
from faregate import build_openapi
from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from faregate.offers import offer
from faregate.routes.crawler_check import check_url, send_request
from tests import django_site
from tests.servers.http import serving, serving_wsgi
from tests.servers.shared import need
from tests.support.headers import decode_header

django_site.ready()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402

import faregate.django  # noqa: E402
from tests.adapters.django_views import PAYWALL  # noqa: E402

PRICE = {"mode": "fixed", "currency": "USD", "amount": "0.05"}
CITY = {"name": "city", "in": "query", "required": True, "schema": {"type": "string"}}
ORDER = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
RESULT = {"type": "object", "properties": {"report": {"type": "string"}}}


def in_json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


DECLARED: dict[str, Any] = {
    "parameters": [CITY],
    "requestBody": in_json(ORDER),
    "responses": {"200": in_json(RESULT)},
}


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Generator[Emulator]:
    emulator = Emulator()
    with serve(emulator) as service:
        monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)
        monkeypatch.setenv("FAREGATE_BASE_URL", service)
        monkeypatch.setenv("FAREGATE_PUBLIC_URL", "https://seller.example")
        monkeypatch.setenv("FAREGATE_DISCOVERY", "1")
        yield emulator


class Order(BaseModel):
    days: int = Field(ge=1)


class Report(BaseModel):
    report: str


def make_fastapi() -> FastAPI:
    app = FastAPI(title="Weather")
    app.add_middleware(faregate.fastapi.PaywallMiddleware)
    sold = [Depends(faregate.fastapi.paid("daily_report"))]

    @app.get("/report/{place}", dependencies=sold)
    async def report(place: str, city: str) -> Report:
        """The weather of one city."""
        return Report(report=city)

    @app.post("/report/{place}", dependencies=sold)
    async def order(place: str, city: str, wanted: Order) -> Report:
        """The weather of one city."""
        return Report(report=city)

    return app


def make_flask() -> Flask:
    app = Flask(__name__)
    seller = faregate.flask.Faregate(app)

    @app.route("/report/<place>", methods=["GET", "POST"])
    @seller.paid("daily_report", description="The weather of one city.", openapi=DECLARED)
    def report(place: str) -> dict[str, str]:
        return {"report": "Sunny."}

    @app.get("/openapi.json")
    def openapi() -> Any:
        return jsonify(build_openapi(app, "Weather"))

    return app


@csrf_exempt
@faregate.django.paid("daily_report", description="The weather of one city.", openapi=DECLARED)
def sell_report(_request: HttpRequest, place: str) -> JsonResponse:
    return JsonResponse({"report": place})


def show_openapi(_request: HttpRequest) -> JsonResponse:
    return JsonResponse(build_openapi(get_wsgi_application(), "Weather"))


@contextmanager
def serve_django() -> Generator[str]:
    routes = (path("report/<slug:place>", sell_report), path("openapi.json", show_openapi))
    settings: dict[str, Any] = {"FAREGATE": {}, "ROOT_URLCONF": routes, "MIDDLEWARE": [PAYWALL]}
    with override_settings(**settings), serving_wsgi(get_wsgi_application()) as url:
        yield url


def make_starlette() -> Starlette:
    @faregate.starlette.paid("daily_report", description="The weather of one city.", openapi=DECLARED)
    async def report(request: Request) -> JSONResponse:
        return JSONResponse({"report": request.path_params["place"]})

    def openapi(_request: Request) -> JSONResponse:
        return JSONResponse(build_openapi(app, "Weather"))

    app = Starlette(
        routes=[Route("/report/{place}", report, methods=["GET", "POST"]), Route("/openapi.json", openapi)],
        middleware=[Middleware(faregate.starlette.PaywallMiddleware)],
    )
    return app


def make_wsgi() -> Any:
    """An application whose routes cannot be listed: a prefix of it is sold."""

    def application(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        found = (
            build_openapi(app, "Weather") if environ["PATH_INFO"] == "/openapi.json" else {"report": "Sun"}
        )
        return [json.dumps(found).encode()]

    sold = offer("daily_report", description="The weather of one city.", openapi=DECLARED)
    app = faregate.wsgi.PaywallMiddleware(application, offers={"/report": sold})
    return app


def make_asgi() -> Any:
    async def application(scope: Any, _receive: Any, send: Any) -> None:
        is_document = scope["path"] == "/openapi.json"
        found = await to_thread.run_sync(build_openapi, app, "Weather") if is_document else {"report": "Sun"}
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(found).encode()})

    sold = offer("daily_report", description="The weather of one city.", openapi=DECLARED)
    app = faregate.asgi.PaywallMiddleware(application, offers={"/report": sold})
    return app


Serve = Callable[[], AbstractContextManager[str]]
SELLERS: dict[str, Serve] = {
    "fastapi": lambda: serving(make_fastapi()),
    "flask": lambda: serving_wsgi(make_flask()),
    "django": serve_django,
    "starlette": lambda: serving(make_starlette()),
    "wsgi": lambda: serving_wsgi(make_wsgi()),
    "asgi": lambda: serving(make_asgi(), lifespan="off"),
}
ROUTED = ("fastapi", "flask", "django", "starlette")
"""Those whose router knows the parameters of a path."""


def build_payer(kind: type[Any]) -> Any:
    return kind().register("eip155:*", ExactEvmScheme(Account.create()))


def find_listed(emulator: Emulator) -> Any:
    """Return what the official package would list from the one payment that the service received."""
    [proof] = [call.proof for call in emulator.calls("access") if call.proof is not None]
    return extract_discovery_info(dict(proof), dict(proof["accepted"]))


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("name", SELLERS)
def test_one_payment_lists_a_seller(emulator: Emulator, name: str, method: str) -> None:
    payer = x402HTTPClientSync(build_payer(x402ClientSync))
    with SELLERS[name]() as seller, httpx.Client() as client:
        url = f"{seller}/report/oslo"
        probe = client.request(method, url)
        assert probe.status_code == 402, "a crawler sends neither body nor parameters"
        proof, _ = payer.handle_402_response(dict(probe.headers), probe.content, url)
        json_body = {"days": 3} if method == "POST" else None
        paid = client.request(method, url, params={"city": "Oslo"}, json=json_body, headers=proof)

    assert paid.status_code == 200, paid.text
    listed = find_listed(emulator)
    expected = "https://seller.example/report/" + (":place" if name in ROUTED else "oslo")
    assert (listed.resource_url, listed.method) == (expected, method)
    assert (listed.mime_type, listed.description) == ("application/json", "The weather of one city.")
    shown = listed.extensions["bazaar"]["schema"]["properties"]
    assert shown["input"]["properties"]["queryParams"]["required"] == ["city"]
    assert "report" in shown["output"]["properties"]["example"]["properties"]
    given = listed.discovery_info.input
    assert given.query_params.keys() == {"city"}
    assert given.path_params == ({"place": "oslo"} if name in ROUTED else None)
    if method == "POST":
        assert given.body.keys() == {"days"}


def test_one_payment_lists_a_tool(emulator: Emulator) -> None:
    server = MCPServer("seller")
    faregate.mcp.add_paywall(server)

    @server.tool()
    @faregate.mcp.paid("daily_report")
    async def forecast(city: str) -> Report:
        """The weather of one city."""
        return Report(report=city)

    async def buy() -> None:
        payer = build_payer(x402Client)
        async with Client(server) as client:
            asked = await client.call_tool("forecast", {"city": "Oslo"})
            required = parse_payment_required(json.loads(asked.content[0].text))  # type: ignore[union-attr]
            payment = await payer.create_payment_payload(required)
            meta: Any = {"x402/payment": payment.model_dump(by_alias=True, exclude_none=True)}
            paid = await client.call_tool("forecast", {"city": "Oslo"}, meta=meta)
            assert not paid.is_error, paid.content

    anyio.run(buy)

    listed = find_listed(emulator)
    assert listed.tool_name == "forecast"
    assert [*listed.discovery_info.input.input_schema["properties"]] == ["city"]
    assert listed.description == "The weather of one city."
    shown = listed.extensions["bazaar"]["schema"]["properties"]["output"]
    assert [*shown["properties"]["example"]["properties"]] == ["report"]


def test_a_seller_that_does_not_ask_says_nothing(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAREGATE_DISCOVERY")
    with SELLERS["fastapi"]() as seller:
        required = decode_header(httpx.get(f"{seller}/report/oslo").headers["payment-required"])
    assert "extensions" not in required


# The document, and the checker of a crawler


@pytest.mark.parametrize("name", SELLERS)
@pytest.mark.usefixtures("emulator")
def test_the_document_has_prices_and_is_valid(name: str) -> None:
    with SELLERS[name]() as seller:
        document: dict[str, Any] = httpx.get(f"{seller}/openapi.json").json()

    validate(document)
    [(template, operations)] = document["paths"].items()
    assert template == ("/report/{place}" if name in ROUTED else "/report/{path}")
    for operation in operations.values():
        info = operation["x-payment-info"]
        assert (info["price"], info["asset"], info["sells"]) == (PRICE, "USDC", "daily_report")
        parameters = {(one.get("name"), one.get("in")) for one in operation["parameters"]}
        assert {("city", "query"), (template[9:-1], "path")} <= parameters
        assert {"200", "202", "402", "409", "503"} <= operation["responses"].keys()


@pytest.fixture(scope="module")
def checker() -> Path:
    try:
        return install_client(Path(__file__).with_name("discovery"))
    except NoTypeScript as error:
        need("npm", str(error))
        raise


@pytest.mark.parametrize("name", SELLERS)
@pytest.mark.usefixtures("emulator")
def test_the_checker_of_a_crawler_finds_nothing(checker: Path, name: str) -> None:
    with SELLERS[name]() as seller:
        told = run_checker(checker, "check", f"{seller}/report/oslo")
        found = run_checker(checker, "discover", seller)

    assert told["warnings"] == []
    assert {one["estimatedPrice"] for one in told["advisories"]} == {"0.05 USD"}
    assert {one["priceHint"] for one in found["resources"]} == {"0.05 USD"}
    # An icon and an address for questions are the seller's own.
    own = {
        "FAVICON_MISSING",
        "OPENAPI_CONTACT_MISSING",
        *(["L4_GUIDANCE_MISSING"] if name == "fastapi" else []),
    }
    assert {one["code"] for one in found["warnings"]} <= own


@pytest.mark.parametrize("url", ["https://seller.example", "https://seller.example/report/oslo"])
@pytest.mark.parametrize("name", SELLERS)
@pytest.mark.usefixtures("emulator")
def test_our_own_check_from_outside_finds_nothing(name: str, url: str) -> None:
    with SELLERS[name]() as seller:
        report = check_url(
            url, lambda method, url: send_request(method, url.replace("https://seller.example", seller))
        )

    assert report.faults == []
    # A route that takes any method is documented with the one that its offer describes.
    assert len(report.sold) == (1 if name in ("django", "wsgi", "asgi") else 2)
    assert {re.sub(r".* is paid", "is paid", note) for note in report.notes} == {
        "is paid on a test network: catalogues of real money leave it out.",
        "https://seller.example/llms.txt is answered with 404: build_llms_text makes one.",
    } or name in ("wsgi", "asgi")


def run_checker(checker: Path, *words: str) -> dict[str, Any]:
    command = ["node", "node_modules/.bin/discovery", *words, "--json"]
    done = subprocess.run(command, cwd=checker, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told
