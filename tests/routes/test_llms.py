"""`/llms.txt` of applications of several frameworks."""

from collections.abc import Generator
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from flask import Flask
from mcp.server import MCPServer

import faregate.fastapi
import faregate.flask
import faregate.mcp
from faregate import ConfigurationError, build_llms_text
from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve

SUMMARY_PRICE = "0.01 USDC on Base Sepolia, a test network"


@pytest.fixture(autouse=True)
def _service(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    with serve(Emulator()) as service:
        monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)
        monkeypatch.setenv("FAREGATE_BASE_URL", service)
        monkeypatch.setenv("FAREGATE_PUBLIC_URL", "https://seller.example")
        yield


def make_app() -> FastAPI:
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware)
    report = faregate.fastapi.paid("daily_report", description="The weather\nof today.")

    @app.get("/report", dependencies=[Depends(report)])
    async def sell_report() -> dict[str, str]:
        return {}

    @app.get("/items/{number}", dependencies=[Depends(faregate.fastapi.paid("text_summary"))])
    async def sell_item(number: int) -> dict[str, int]:
        return {"number": number}

    @app.get("/free")
    async def give() -> dict[str, str]:
        return {}

    return app


def list_sold(text: str) -> list[str]:
    return text.partition("## Paid\n\n")[2].splitlines()


def test_what_is_sold_is_listed_with_its_price() -> None:
    text = build_llms_text(make_app(), "Weather", "Reports of\n the weather.")

    assert text.startswith("# Weather\n\n> Reports of the weather.\n\n## How to pay\n")
    assert list_sold(text) == [
        "- [GET /report](https://seller.example/report): The weather of today. "
        "0.05 USDC on Base Sepolia, a test network.",
        f"- `GET /items/{{number}}`: text_summary. {SUMMARY_PRICE}.",
    ]


def test_a_price_that_the_service_does_not_say_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAREGATE_BASE_URL", "http://127.0.0.1:9")

    [report, _] = list_sold(build_llms_text(make_app(), "Weather"))

    assert report.endswith("The weather of today. Its price is in its `402`.")


def test_a_flask_application_and_an_mcp_server_are_listed() -> None:
    app = Flask(__name__)
    seller = faregate.flask.Faregate(app)

    @app.post("/report")
    @seller.paid("daily_report")
    def report() -> dict[str, str]:
        return {}

    server = MCPServer("seller")
    faregate.mcp.add_paywall(server)

    @server.tool()
    @faregate.mcp.paid("daily_report", description="The weather")
    async def forecast(city: str) -> str:
        return city

    assert list_sold(build_llms_text(app, "Weather")) == [
        "- [POST /report](https://seller.example/report): daily_report. "
        "0.05 USDC on Base Sepolia, a test network."
    ]
    assert list_sold(build_llms_text(server, "Weather")) == [
        "- MCP tool `forecast`: The weather. 0.05 USDC on Base Sepolia, a test network."
    ]


def test_an_application_that_sells_nothing_says_so() -> None:
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware)

    assert list_sold(build_llms_text(app, "Weather")) == ["Nothing is sold at the moment."]


@pytest.mark.parametrize("name", ["", " ", None, 1])
def test_a_seller_needs_a_name(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="seller's name"):
        build_llms_text(FastAPI(), name)


@pytest.mark.parametrize(
    ("app", "about", "message"),
    [(object(), "", "your application, not object"), (FastAPI(), 5, "text as about=, not 5")],
)
def test_what_is_no_application_or_no_text_is_an_error(app: object, about: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build_llms_text(app, "Weather", about)
