"""Sellers that ask to be listed: what the official package reads from a bare probe, and from one payment."""

import json
from collections.abc import Generator
from typing import Any

import anyio
import httpx
import pytest
from eth_account import Account
from fastapi import Depends, FastAPI
from flask import Flask
from mcp.client import Client
from mcp.server import MCPServer
from x402 import x402Client, x402ClientSync
from x402.extensions.bazaar import extract_discovery_info
from x402.http import x402HTTPClientSync
from x402.mechanisms.evm.exact import ExactEvmScheme
from x402.schemas import parse_payment_required

import faregate.fastapi
import faregate.flask
import faregate.mcp
from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from tests.servers.http import serving, serving_wsgi
from tests.support.headers import decode_header


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Generator[Emulator]:
    emulator = Emulator()
    with serve(emulator) as service:
        monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)
        monkeypatch.setenv("FAREGATE_BASE_URL", service)
        monkeypatch.setenv("FAREGATE_PUBLIC_URL", "https://seller.example")
        monkeypatch.setenv("FAREGATE_DISCOVERY", "1")
        yield emulator


def make_fastapi() -> FastAPI:
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware)

    @app.get("/report", dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    async def report(city: str) -> dict[str, str]:
        """The weather of one city."""
        return {"report": city}

    @app.post("/report", dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    async def post_report(body: dict[str, str]) -> dict[str, str]:
        return body

    return app


def make_flask() -> Flask:
    app = Flask(__name__)
    seller = faregate.flask.Faregate(app)

    @app.route("/report", methods=["GET", "POST"])
    @seller.paid("daily_report")
    def report() -> dict[str, str]:
        """The weather of one city."""
        return {"report": "Sunny."}

    return app


SELLERS = {
    "fastapi": lambda: serving(make_fastapi()),
    "flask": lambda: serving_wsgi(make_flask()),
}


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
        probe = client.request(method, f"{seller}/report")
        assert probe.status_code == 402, "a crawler sends neither body nor parameters"
        proof, _ = payer.handle_402_response(dict(probe.headers), probe.content, f"{seller}/report")
        json_body = {"city": "Oslo"} if method == "POST" else None
        paid = client.request(
            method, f"{seller}/report", params={"city": "Oslo"}, json=json_body, headers=proof
        )

    assert paid.status_code == 200, paid.text
    listed = find_listed(emulator)
    assert (listed.resource_url, listed.method) == ("https://seller.example/report", method)
    assert listed.mime_type == "application/json"


def test_one_payment_lists_a_tool(emulator: Emulator) -> None:
    server = MCPServer("seller")
    faregate.mcp.add_paywall(server)

    @server.tool()
    @faregate.mcp.paid("daily_report")
    async def forecast(city: str) -> str:
        """The weather of one city."""
        return city

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


def test_a_seller_that_does_not_ask_says_nothing(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAREGATE_DISCOVERY")
    with SELLERS["fastapi"]() as seller:
        required = decode_header(httpx.get(f"{seller}/report").headers["payment-required"])
    assert "extensions" not in required
