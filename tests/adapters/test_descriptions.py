"""What a payer is told when the seller says nothing: the handler's docstring and its route's media type."""

import base64
import json
from typing import Any

import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse, StreamingResponse
from flask import Blueprint, Flask
from flask.views import MethodView
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from werkzeug.test import Client

from faregate import fastapi as fast
from faregate import starlette as star
from faregate.checkout.descriptions import describe_offer
from faregate.emulator import Emulator, SettlementRule, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.flask import Faregate
from faregate.journals.memory import MemoryJournal
from faregate.offers import build_offer
from faregate.paywall import Paywall
from tests.support.headers import decode_header

JSON = "application/json"
DOC = "The weather of one day, as it was measured."


def a_paywall(emulator: Emulator | None = None, **settings: Any) -> Paywall:
    return Paywall(
        base_url="emulator:",
        environ={},
        **settings,
        transport=EmbeddedTransport(emulator or Emulator()),
        public_url="https://seller.example",
    )


def documented(*_args: Any, **_named: Any) -> Any:
    """The weather of one day,
    as it was measured.

    How it is made is nobody's business.
    """
    return "sun"


def told(headers: Any) -> tuple[str, str]:
    resource = decode_header(headers["PAYMENT-REQUIRED"])["resource"]
    return resource["description"], resource["mimeType"]


# What is read


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (None, None),
        ("", None),
        ("   ", None),
        ("\n    One\n      line.\n\n    Another.\n    ", "One line."),
        ("Public.\fNot published.", "Public."),
        ("x" * 500, "x" * 500),
        ("x" * 501, "x" * 499 + "…"),
        ("word " * 100 + "end", ("word " * 100).strip() + "…"),
        ("half \ud800 a character", None),
        ("\x00a\x1b[31m red\x85line\r\nSet-Cookie: a=b", "a [31m red line Set-Cookie: a=b"),
    ],
)
def test_the_first_paragraph_is_read_and_cut_at_a_word(text: str | None, description: str | None) -> None:
    def handler() -> None: ...

    handler.__doc__ = text
    made = describe_offer(build_offer("daily_report"), (handler,), None)
    assert made.description == description
    assert len(made.description or "") <= 500


@pytest.mark.parametrize("letter", ["ж", "天", "😀", '"', "\\"])
def test_a_402_with_a_long_docstring_fits_into_the_headers_that_proxies_read(letter: str) -> None:
    """nginx answers 502 for more than a page of headers, and the service may write JSON in ASCII."""

    def handler() -> None: ...

    handler.__doc__ = (letter * 9 + " ") * 100
    made = describe_offer(build_offer("daily_report"), (handler,), None).description or ""
    assert made.endswith("…")
    assert len(made) > 80
    assert len(base64.b64encode(json.dumps(made).encode())) < 1400


@pytest.mark.parametrize(
    ("media_type", "mime_type"),
    [("text/html", "text/html"), ("Text/HTML; charset=utf-8", "text/html"), ("html", None), (None, None)],
)
def test_a_media_type_that_the_service_would_refuse_is_left_out(
    media_type: str | None, mime_type: str | None
) -> None:
    assert describe_offer(build_offer("daily_report"), (), media_type).mime_type == mime_type


def test_what_the_seller_says_stands_and_nothing_may_be_said() -> None:
    own = build_offer("daily_report", description="", mime_type="text/csv")
    assert describe_offer(own, (documented,), "text/html") == own


# Where it is found


def starlette_resource(endpoint: Any, url: str = "/one") -> tuple[str, str]:
    app = Starlette(
        routes=[Route("/one", endpoint), Mount("/below", routes=[Route("/one", endpoint)])],
        middleware=[Middleware(star.PaywallMiddleware, a_paywall())],
    )
    with TestClient(app) as client:
        return told(client.get(url).headers)


def test_an_endpoint_of_starlette() -> None:
    sold = star.paid("daily_report")

    def endpoint(request: Any) -> Response:
        """One report."""
        return Response("x")

    class Endpoint(HTTPEndpoint):
        """Every report."""

        @sold
        async def get(self, request: Any) -> Response:
            """Get one."""
            return Response("x")

    class Silent(Endpoint):
        """Silent ones."""

        @sold
        async def get(self, request: Any) -> Response:
            return Response("x")

    for url in ("/one", "/below/one"):
        assert starlette_resource(sold(endpoint), url) == ("One report.", JSON)
        assert starlette_resource(Endpoint, url) == ("Get one.", JSON)
    assert starlette_resource(Silent) == ("Silent ones.", JSON)


def test_a_route_of_fastapi_says_its_media_type() -> None:
    app = FastAPI()
    app.add_middleware(fast.PaywallMiddleware, paywall=a_paywall())
    price = Depends(fast.paid("daily_report"))  # one price on many routes
    router = APIRouter(dependencies=[price], default_response_class=PlainTextResponse)
    router.add_api_route("/text", documented)
    app.include_router(router, prefix="/group")

    def say_nothing() -> str:
        return "x"

    async def generate() -> Any:
        """One line after the other."""
        yield "x"

    app.add_api_route("/json", documented, dependencies=[price])
    app.add_api_route("/html", documented, dependencies=[price], response_class=HTMLResponse)
    app.add_api_route("/stream", documented, dependencies=[price], response_class=StreamingResponse)
    app.add_api_route("/lines", generate, dependencies=[price])
    app.add_api_route("/said", documented, dependencies=[price], description="As the route\nsays.\n\nMore.")
    app.add_api_route("/silent", say_nothing, dependencies=[price])
    own = Depends(fast.paid("daily_report", description="", mime_type="text/csv"))
    app.add_api_route("/own", documented, dependencies=[own], response_class=HTMLResponse)
    with TestClient(app) as client:
        found = {one: told(client.get(one).headers) for one in app.openapi()["paths"]}
    assert found == {
        "/group/text": (DOC, "text/plain"),
        "/json": (DOC, JSON),
        "/html": (DOC, "text/html"),
        "/stream": (DOC, JSON),
        "/lines": ("One line after the other.", "application/jsonl"),
        "/said": ("As the route says.", JSON),
        "/silent": ("", JSON),
        "/own": ("", "text/csv"),
    }


def test_a_prefix_has_no_handler_to_speak_of() -> None:
    app = FastAPI()
    app.add_api_route("/sold/one", documented)
    app.add_middleware(fast.PaywallMiddleware, paywall=a_paywall(), offers={"/sold": "daily_report"})
    with TestClient(app) as client:
        assert told(client.get("/sold/one").headers) == ("", JSON)


def test_a_view_of_flask() -> None:
    app, extension = Flask(__name__), Faregate()
    extension.init_app(app, a_paywall())
    sold = extension.paid("daily_report")
    group = Blueprint("group", __name__, static_folder=".", static_url_path="/static")
    extension.paid_all(group, "daily_report")
    group.add_url_rule("/view", view_func=documented)
    app.register_blueprint(group, url_prefix="/group")

    def own() -> str:
        """The weather of one day, as it was measured."""
        return "x"

    class Reports(MethodView):
        """Every report."""

        @sold
        def get(self) -> str:
            """Get one."""
            return "x"

        @sold
        def post(self) -> str:
            return "x"

    app.add_url_rule("/class", view_func=Reports.as_view("reports"))
    app.add_url_rule("/view", "own", sold(own))
    client = Client(app)
    assert told(client.get("/view").headers) == (DOC, JSON)
    assert told(client.get("/group/view").headers) == (DOC, JSON)
    assert told(client.get("/class").headers) == ("Get one.", JSON)
    assert told(client.post("/class").headers) == ("Every report.", JSON)
    # How Flask's own view works is not what is sold.
    assert told(client.get("/group/static/__init__.py").headers) == ("", JSON)


# What a payment is good for


def test_an_offer_made_twice_for_one_request_is_one_offer_with_a_docstring_too() -> None:
    app, extension = Flask(__name__), Faregate()
    extension.init_app(app, a_paywall())
    group = Blueprint("group", __name__)
    extension.paid_all(group, "daily_report")

    @group.get("/one")
    @extension.paid("daily_report")
    def one() -> str:
        """One report."""
        return "sun"

    app.register_blueprint(group)
    client = Client(app)
    unpaid = client.get("/one").headers
    assert told(unpaid) == ("One report.", JSON)
    proof = Wallet().pay(unpaid["PAYMENT-REQUIRED"])
    assert client.get("/one", headers={"PAYMENT-SIGNATURE": proof}).text == "sun"


def a_shop(emulator: Emulator, docstring: str, media: type[Response], journal: Any = None) -> FastAPI:
    """The application before or after a deployment."""

    def report() -> str:
        return "sun"

    report.__doc__ = docstring
    app = FastAPI()
    app.add_middleware(fast.PaywallMiddleware, paywall=a_paywall(emulator, journal=journal))
    sold = Depends(fast.paid("daily_report"))
    app.add_api_route("/one", report, dependencies=[sold], response_class=media)
    return app


def repeat_after_deployment(docstring: str, media: type[Response], *, is_journal_kept: bool) -> list[int]:
    """Statuses of one payment that is repeated while it settles, and afterwards."""
    emulator = Emulator()
    emulator.settle_after("*", SettlementRule(manual=True))
    journal = MemoryJournal() if is_journal_kept else None
    before = TestClient(a_shop(emulator, "Before.", PlainTextResponse, journal))
    after = TestClient(a_shop(emulator, docstring, media, journal))
    proof = {"PAYMENT-SIGNATURE": Wallet().pay(before.get("/one").headers["PAYMENT-REQUIRED"])}
    first = before.get("/one", headers=proof)
    told_after = told(after.get("/one").headers)
    assert told_after == (docstring, media.media_type)
    repeated = [first.status_code, after.get("/one", headers=proof).status_code]
    emulator.settle(first.headers["Faregate-Transaction"])
    repeated += [shop.get("/one", headers=proof).status_code for shop in (after, before, after)]
    emulator.assert_no_double_charge()
    return repeated


@pytest.mark.parametrize("is_journal_kept", [True, False])
def test_a_changed_docstring_changes_nothing_of_an_open_payment(is_journal_kept: bool) -> None:
    unchanged = repeat_after_deployment("Before.", PlainTextResponse, is_journal_kept=is_journal_kept)
    changed = repeat_after_deployment("After.", HTMLResponse, is_journal_kept=is_journal_kept)
    assert changed == unchanged
    assert 402 not in changed
    if is_journal_kept:
        assert changed == [202, 202, 200, 200, 200]
