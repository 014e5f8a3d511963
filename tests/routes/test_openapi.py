"""`/openapi.json` of applications whose framework makes none."""

from collections.abc import Generator
from typing import Any

import pytest
from fastapi import FastAPI
from flask import Flask
from mcp.server import MCPServer
from openapi_spec_validator import validate

import faregate.fastapi
import faregate.flask
import faregate.mcp
from faregate import ConfigurationError, build_llms_text, build_openapi
from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> Generator[Emulator]:
    emulator = Emulator()
    with serve(emulator) as service:
        monkeypatch.setenv("FAREGATE_API_KEY", TEST_KEY)
        monkeypatch.setenv("FAREGATE_BASE_URL", service)
        monkeypatch.setenv("FAREGATE_PUBLIC_URL", "https://seller.example/shop")
        yield emulator


def fixed(amount: str) -> dict[str, str]:
    return {"mode": "fixed", "currency": "USD", "amount": amount}


def make_app() -> tuple[Flask, faregate.flask.Faregate]:
    app = Flask("shop")
    return app, faregate.flask.Faregate(app)


def test_what_is_sold_is_documented_with_its_price() -> None:
    app, seller = make_app()

    @app.get("/report")
    @seller.paid("daily_report", description="The weather\nof today.", mime_type="text/plain")
    def report() -> str:
        return ""

    @app.route("/items/<int:number>", methods=["DELETE", "PUT"])
    @seller.paid("text_summary")
    def item(number: int) -> str:
        return ""

    @app.get("/free")
    def free() -> str:
        return ""

    document = build_openapi(app, "Weather", "Reports of\n the weather.")
    validate(document)

    assert (document["info"]["title"], document["info"]["description"]) == (
        "Weather",
        "Reports of the weather.",
    )
    assert document["servers"] == [{"url": "https://seller.example/shop"}]
    paths = document["paths"]
    assert {path: [*operations] for path, operations in paths.items()} == {
        "/report": ["get"],
        "/items/{number}": ["delete", "put"],
    }
    shown = paths["/report"]["get"]
    assert shown["summary"] == "The weather of today."
    assert [*shown["responses"]["200"]["content"]] == ["text/plain"]
    assert shown["x-payment-info"] == {
        "protocols": [{"x402": {}}],
        "sells": "daily_report",
        "asset": "USDC",
        "price": fixed("0.05"),
        "network": "eip155:84532",
    }
    [number, _] = paths["/items/{number}"]["put"]["parameters"]
    assert (number["name"], number["schema"]) == ("number", {"type": "integer"})
    assert paths["/items/{number}"]["delete"]["x-payment-info"]["price"] == fixed("0.01")


def test_a_choice_has_the_lowest_and_the_highest_price() -> None:
    app, seller = make_app()

    @app.get("/report")
    @seller.paid(lambda _request: "daily_report", among=["daily_report", "text_summary"])
    def report() -> str:
        return ""

    info = build_openapi(app, "Weather")["paths"]["/report"]["get"]["x-payment-info"]

    assert info["price"] == {"mode": "dynamic", "currency": "USD", "min": "0.01", "max": "0.05"}
    assert [one["price"]["amount"] for one in info["among"]] == ["0.05", "0.01"]


def test_what_the_seller_declares_counts() -> None:
    app, seller = make_app()
    made = {"description": "Made.", "content": {"application/json": {"schema": {"type": "object"}}}}

    @app.post("/report")
    @seller.paid("daily_report", openapi={"summary": "Order a report", "responses": {"201": made}})
    def report() -> dict[str, str]:
        return {}

    document = build_openapi(app, "Weather")
    validate(document)
    operation = document["paths"]["/report"]["post"]

    assert operation["summary"] == "Order a report"
    assert "200" not in operation["responses"]
    assert operation["responses"]["201"].items() >= made.items()


def test_a_price_that_the_service_does_not_say_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAREGATE_BASE_URL", "http://127.0.0.1:9")
    app, seller = make_app()
    app.add_url_rule("/report", view_func=seller.paid("daily_report")(lambda: ""))

    document = build_openapi(app, "Weather")
    validate(document)

    info = document["paths"]["/report"]["get"]["x-payment-info"]
    assert info == {"protocols": [{"x402": {}}], "sells": "daily_report"}


def test_the_service_is_asked_again_when_the_price_is_old(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, seller = make_app()
    app.add_url_rule("/report", view_func=seller.paid("daily_report")(lambda: ""))

    def count_asked() -> int:
        build_openapi(app, "Weather")
        build_llms_text(app, "Weather")
        return len(emulator.calls("access"))

    assert (count_asked(), count_asked()) == (1, 1)
    monkeypatch.setattr("faregate.paywall.PRICE_SECONDS", 0.0)
    assert count_asked() == 3


def test_an_application_that_sells_nothing_has_no_path() -> None:
    assert build_openapi(make_app()[0], "Weather")["paths"] == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (FastAPI, "FastAPI serves an OpenAPI document already"),
        (lambda: MCPServer("seller"), "tools of an MCP server"),
        (object, "build_openapi needs your application, not object"),
    ],
)
def test_what_has_no_such_document_is_an_error(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build_openapi(make(), "Weather")


def test_a_seller_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match="build_openapi needs the seller's name"):
        build_openapi(make_app()[0], " ")
