"""What the OpenAPI document says of payments, as validators and client generators read it."""

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from examples.demo.servers import SELLER
from fastapi import APIRouter, Depends, FastAPI
from fastapi.security import HTTPBearer
from openapi_spec_validator import validate
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from faregate.checkout.openapi import with_payments
from faregate.core.terms import Price
from faregate.emulator import Emulator
from faregate.emulator.transports import EmbeddedTransport
from faregate.fastapi import PaywallMiddleware, add_openapi, paid
from faregate.offers import build_offer
from faregate.paywall import Paywall
from faregate.starlette import PaywallMiddleware as StarletteMiddleware
from tests.adapters.asgi import a_paywall, calling
from tests.support.headers import decode_header
from tests.support.snippets import run

SOLD = paid("daily_report")
INFO = {"protocols": [{"x402": {}}], "sells": "daily_report"}
ASKED = {"price": {"mode": "fixed", "currency": "USD", "amount": "0.05"}, "network": "eip155:84532"}


def schema_of(app: FastAPI, path: str = "/openapi.json") -> dict[str, Any]:
    """The document as a client gets it, through the middleware; it must be valid."""
    with calling(app) as http:
        made: dict[str, Any] = http.get(path).json()
    validate(made)
    return made


def a_shop(*, paywall: Paywall | None = None, **settings: Any) -> FastAPI:
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, paywall=paywall or a_paywall(), **settings)
    return app


def followed(schema: dict[str, Any], what: Any) -> Any:
    """What a reference leads to."""
    while "$ref" in what:
        found: Any = schema
        for part in what["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        what = found
    return what


def test_a_paid_operation_names_its_header_its_answers_and_what_it_sells() -> None:
    app = a_shop()
    router = APIRouter(dependencies=[Depends(SOLD)])
    for method in ("GET", "POST"):
        router.add_api_route("/one", lambda: "x", methods=[method])
    app.include_router(router, prefix="/group")
    app.add_api_route("/free", lambda: "x")
    schema = schema_of(app)

    free = schema["paths"]["/free"]["get"]
    assert "parameters" not in free
    assert free["responses"].keys() == {"200"}
    for method in ("get", "post"):
        operation = schema["paths"]["/group/one"][method]
        assert operation["x-payment-info"] == INFO
        assert "security" not in operation
        [signature] = [followed(schema, one) for one in operation["parameters"]]
        assert (signature["name"], signature["in"], signature["required"]) == (
            "PAYMENT-SIGNATURE",
            "header",
            False,
        )
        answers = {status: followed(schema, one) for status, one in operation["responses"].items()}
        assert {status: set(one.get("headers", ())) for status, one in answers.items()} == {
            "200": {"PAYMENT-RESPONSE"},
            "202": {"Retry-After"},
            "402": {"PAYMENT-REQUIRED", "Retry-After"},
            "409": {"Retry-After"},
            "503": {"Retry-After"},
        }
        for status in ("202", "402", "409", "503"):
            body = followed(schema, answers[status]["content"]["application/json"]["schema"])
            assert body["required"] == ["code", "message"]


def test_each_shape_is_defined_once() -> None:
    app = a_shop()
    for number in range(5):
        app.add_api_route(f"/{number}", lambda: "x", dependencies=[Depends(SOLD)])
    told = json.dumps(schema_of(app))
    for said in ("Base64 of the x402", "made by the payer", "Why the result was not given"):
        assert told.count(said) == 1, said
    assert "PAYMENT-SIGNATURE.daily_report" not in told
    assert "securitySchemes" not in told


def test_what_the_seller_says_stands() -> None:
    class PaymentProblem(BaseModel):
        own: int

    app = a_shop()
    own = {402: {"description": "Ask us first."}, 202: {"description": "Queued."}}
    price = {"price": {"mode": "fixed", "currency": "USD", "amount": "0.05"}}

    @app.get(
        "/own",
        dependencies=[Depends(SOLD), Depends(HTTPBearer())],
        responses=own,  # type: ignore[arg-type]
        openapi_extra={"x-payment-info": price},
    )
    async def own_way() -> PaymentProblem:
        return PaymentProblem(own=1)

    schema = schema_of(app)
    operation = schema["paths"]["/own"]["get"]
    assert operation["responses"]["402"] == {"description": "Ask us first."}
    assert operation["responses"]["202"]["description"] == "Queued."
    assert "PAYMENT-RESPONSE" in operation["responses"]["202"]["headers"]
    assert operation["x-payment-info"] == {**INFO, **price}
    assert operation["security"] == [{"HTTPBearer": []}]
    schemas = schema["components"]["schemas"]
    assert "own" in schemas["PaymentProblem"]["properties"]
    assert "code" in schemas["FaregatePaymentProblem"]["properties"]


def test_an_operation_below_a_paid_prefix_is_documented_too() -> None:
    app = a_shop(offers={"/files": "daily_report"})
    app.add_api_route("/files/{name}", lambda name: name)
    app.add_api_route("/about", lambda: "x")
    paths = schema_of(app)["paths"]
    assert paths["/files/{name}"]["get"]["x-payment-info"] == INFO
    assert "x-payment-info" not in paths["/about"]["get"]


def test_sub_applications_are_documented_by_the_paywall_in_front() -> None:
    inner = FastAPI()
    inner.add_api_route("/report", lambda: "x", dependencies=[Depends(SOLD)])
    inner.add_api_route("/notes", lambda: "x")
    own = a_shop(offers={"/notes": "text_summary"})
    own.add_api_route("/notes", lambda: "x")
    app = Starlette(
        routes=[Mount("/outer", routes=[Mount("/sub", app=inner)]), Mount("/own", app=own)],
        middleware=[
            Middleware(StarletteMiddleware, paywall=a_paywall(), offers={"/outer/sub/notes": "euro_report"})
        ],
    )
    with calling(app) as http:
        sub = http.get("/outer/sub/openapi.json").json()
        other = http.get("/own/openapi.json").json()
    validate(sub)
    validate(other)
    assert sub["paths"]["/report"]["get"]["x-payment-info"] == INFO
    assert sub["paths"]["/notes"]["get"]["x-payment-info"]["sells"] == "euro_report"
    assert other["paths"]["/notes"]["get"]["x-payment-info"]["sells"] == "text_summary"


def test_asset_and_price_are_said_once_the_service_has_told_them() -> None:
    app = a_shop()
    app.add_api_route("/report", lambda: "x", dependencies=[Depends(SOLD)])
    app.add_api_route("/euro", lambda: "x", dependencies=[Depends(paid("euro_report", asset="EURC"))])
    with calling(app) as http:
        before = http.get("/openapi.json").json()["paths"]
        http.get("/report")
        after = http.get("/openapi.json").json()["paths"]
    assert before["/report"]["get"]["x-payment-info"] == INFO
    assert before["/euro"]["get"]["x-payment-info"]["asset"] == "EURC"
    assert after["/report"]["get"]["x-payment-info"] == {**INFO, "asset": "USDC", **ASKED}
    assert "price" not in after["/euro"]["get"]["x-payment-info"]  # nobody has asked for it yet


@pytest.mark.parametrize(
    ("changed", "announced"),
    [
        ({}, {"price": {"mode": "fixed", "currency": "USD", "amount": "0.05"}, "network": "eip155:84532"}),
        (
            {"amount": "0.1", "network": "eip155:8453"},
            {"price": {"mode": "fixed", "currency": "USD", "amount": "0.1"}, "network": "eip155:8453"},
        ),
        (
            {"asset": "EURC"},
            {"price": {"mode": "fixed", "currency": "EUR", "amount": "0.05"}, "network": "eip155:84532"},
        ),
        (
            {"scheme": "upto"},
            {
                "price": {"mode": "dynamic", "currency": "USD", "min": "0", "max": "0.05"},
                "network": "eip155:84532",
            },
        ),
        ({"scheme": "another"}, {}),
        ({"asset": "atomic units of 0xabc"}, {}),
        (None, {}),
    ],
)
def test_only_the_price_that_was_asked_last_is_announced(
    changed: dict[str, str] | None, announced: dict[str, Any]
) -> None:
    before = Price("0.05", "USDC", "eip155:84532", "Base Sepolia", "0x1", "50000")
    now = None if changed is None else replace(before, **changed)
    schema: dict[str, Any] = {"paths": {"/report": {"get": {}}}}
    for price in (before, now):
        with_payments(
            schema, lambda _path: build_offer("daily_report"), price=partial(lambda told, _sells: told, price)
        )
    info: Any = schema["paths"]["/report"]["get"]["x-payment-info"]
    assert info == {**INFO, **announced}


def test_each_offer_of_a_choice_has_its_own_price() -> None:
    app = a_shop()
    size = paid(lambda size="daily_report": size, among=("daily_report", "text_summary"))
    app.add_api_route("/report", lambda: "x", dependencies=[Depends(size)])
    with calling(app) as http:
        http.get("/report")
        info = http.get("/openapi.json").json()["paths"]["/report"]["get"]["x-payment-info"]
    small, large = info["among"]
    assert small == {"sells": "daily_report", "asset": "USDC", **ASKED}
    assert ("price" in info, "price" in large) == (False, False)


def test_a_service_that_is_down_is_not_asked() -> None:
    class Down(EmbeddedTransport):
        def send(self, *call: Any) -> Any:
            pytest.fail("the service was asked")

    transport: Any = Down(Emulator())
    down = Paywall(
        base_url="http://down.example", api_key="svc_test_emulator", transport=transport, environ={}
    )
    app = a_shop(paywall=down)
    app.add_api_route("/report", lambda: "x", dependencies=[Depends(SOLD)])
    assert schema_of(app)["paths"]["/report"]["get"]["x-payment-info"] == INFO


def fail(*_: object) -> Any:
    raise RuntimeError("a fault of the description")


@pytest.mark.parametrize("target", ["application", "extension"])
def test_a_description_that_fails_stops_no_sale(
    target: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = a_shop(paywall=a_paywall(discovery=True))
    app.add_api_route("/report", lambda: "x", dependencies=[Depends(SOLD)])
    if target == "application":
        app.openapi = fail  # type: ignore[method-assign]
    else:
        monkeypatch.setattr("faregate.merchant.backend.amend", fail)

    with caplog.at_level(logging.WARNING, "faregate"), calling(app) as http:
        unpaid = http.get("/report")

    assert unpaid.status_code == 402
    required = decode_header(unpaid.headers["payment-required"])
    assert ("extensions" in required) == (target == "application")
    assert "cannot be described to catalogues" in caplog.text


def test_routes_added_later_and_repeated_requests() -> None:
    app = a_shop()
    app.add_api_route("/one", lambda: "x", dependencies=[Depends(SOLD)])
    with calling(app) as http:
        first = http.get("/openapi.json").json()
        assert http.get("/openapi.json").json() == first
        app.add_api_route("/two", lambda: "x", dependencies=[Depends(SOLD)])
        second = http.get("/openapi.json").json()
    validate(second)
    assert second["paths"]["/two"]["get"]["x-payment-info"] == INFO
    assert second["paths"]["/one"] == first["paths"]["/one"]


def test_one_app_does_not_change_what_another_says() -> None:
    for _ in range(2):
        app = a_shop()
        app.add_api_route("/one", lambda: "x", dependencies=[Depends(SOLD)])
        add_openapi(app)
        made = app.openapi()
        assert "spoilt" not in made["components"]["schemas"]["PaymentProblem"]
        made["components"]["schemas"]["PaymentProblem"]["spoilt"] = True


def test_without_the_middleware_the_document_is_valid_all_the_same() -> None:
    app = FastAPI()
    app.add_api_route("/one", lambda: "x", dependencies=[Depends(SOLD)])
    made = app.openapi()
    validate(made)
    assert made["paths"]["/one"]["get"]["security"] == [{"PAYMENT-SIGNATURE.daily_report": []}]
    add_openapi(app)
    assert app.openapi()["paths"]["/one"]["get"]["x-payment-info"] == INFO


# The example, and a client made from its document


@pytest.fixture(scope="module", name="example")
def _example() -> dict[str, Any]:
    app = run((SELLER / "app.py").read_text(), "example_app").app
    add_openapi(app)
    made: dict[str, Any] = app.openapi()
    return made


def test_the_example_is_valid(example: dict[str, Any]) -> None:
    validate(example)
    sold = {
        path: operation["x-payment-info"]["sells"]
        for path, item in example["paths"].items()
        for operation in item.values()
        if "x-payment-info" in operation
    }
    assert len(sold) == 7
    assert (sold["/report"], sold["/summary"]) == ("daily_report", "token_meter")


def test_a_client_is_generated_and_reads_a_402(example: dict[str, Any], tmp_path: Path) -> None:
    """`openapi-python-client` takes the document without a warning, and what it makes knows our shapes."""
    (tmp_path / "openapi.json").write_text(json.dumps(example))
    words = ["generate", "--path", "openapi.json", "--output-path", "made", "--meta", "none"]
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *words, "--fail-on-warning"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "made/models/payment_problem.py").exists()
    made = (tmp_path / "made/api/default/report_report_get.py").read_text()
    assert "payment_signature: str | Unset" in made
    for status in (202, 402, 409, 503):
        assert f"response.status_code == {status}" in made
    assert "PaymentProblem.from_dict" in made


def test_a_service_in_this_process_says_its_price_at_once() -> None:
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, base_url="emulator:")
    for name in ("daily_report", "free_notes"):
        app.get(f"/{name}", dependencies=[Depends(paid(name))])(lambda: "paid content")
    with calling(app) as http:
        paths = http.get("/openapi.json").json()["paths"]
    info = {name: paths[f"/{name}"]["get"]["x-payment-info"] for name in ("daily_report", "free_notes")}
    assert info["daily_report"].items() >= ASKED.items()
    assert "price" not in info["free_notes"]
