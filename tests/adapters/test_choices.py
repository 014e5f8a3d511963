"""An offer that the request chooses: nothing is given away whatever the function that chooses returns."""

from typing import Annotated, Any, cast

import pytest
from fastapi import Depends, FastAPI
from flask import Blueprint, Flask
from flask import Request as FlaskRequest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from werkzeug.test import Client

from faregate import ConfigurationError, Paywall, asgi, wsgi
from faregate import fastapi as fast
from faregate import starlette as star
from faregate.checkout.path_rules import PathRules
from faregate.emulator import Emulator, Wallet
from faregate.emulator.transports import transport
from faregate.flask import Faregate
from faregate.flask import payment as flask_payment
from faregate.offers import offer
from faregate.wsgi import PaywallMiddleware as WSGIMiddleware

AMONG = ("daily_report", "text_summary")
KEYS = {"small": "daily_report", "large": "text_summary", "other": "token_meter"}
WRONG = ["other", "none", "raise", "number"]


def pick(wanted: str) -> Any:
    if wanted == "raise":
        raise LookupError("secret")
    return {"none": None, "number": 7}.get(wanted, KEYS.get(wanted))


def starlette_app(paywall: Paywall) -> Any:
    async def choose(request: Request) -> Any:
        return pick(request.headers["x-size"])

    @star.paid(choose, among=AMONG)
    async def report(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"sold {request.state.payment.sells}")

    routes = [Route("/report", report)]
    return Starlette(routes=routes, middleware=[Middleware(star.PaywallMiddleware, paywall=paywall)])


def fastapi_app(paywall: Paywall) -> Any:
    app = FastAPI()
    app.add_middleware(fast.PaywallMiddleware, paywall=paywall)

    def choose(request: Request) -> Any:
        return pick(request.headers["x-size"])

    @app.get("/report")
    async def report(payment: Annotated[fast.Payment, Depends(fast.paid(choose, among=AMONG))]) -> str:
        return f"sold {payment.sells}"

    return app


def flask_app(paywall: Paywall) -> Any:
    app, extension = Flask(__name__), Faregate()
    extension.init_app(app, paywall)

    def choose(request: FlaskRequest) -> Any:
        return pick(request.headers["x-size"])

    @app.get("/report")
    @extension.paid(choose, among=AMONG)
    def report() -> str:
        return f"sold {flask_payment.sells}"

    return app


def flask_group_app(paywall: Paywall) -> Any:
    app, extension, group = Flask(__name__), Faregate(), Blueprint("group", __name__)
    extension.init_app(app, paywall)
    extension.paid_all(group, lambda request: pick(request.headers["x-size"]), among=AMONG)
    group.add_url_rule("/report", "report", lambda: f"sold {flask_payment.sells}")
    app.register_blueprint(group)
    return app


def wsgi_app(paywall: Paywall) -> Any:
    def report(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"sold " + environ["HTTP_X_SIZE"].encode()]

    chosen = offer(lambda environ: pick(environ["HTTP_X_SIZE"]), among=AMONG)
    return WSGIMiddleware(report, paywall, offers={"/report": chosen})


def ask(app: Any, size: str, proof: str = "") -> tuple[int, str, Any]:
    headers = {"x-size": size} | ({"PAYMENT-SIGNATURE": proof} if proof else {})
    if hasattr(app, "wsgi_app") or isinstance(app, WSGIMiddleware):
        told = Client(app).get("/report", headers=headers)
        return told.status_code, told.text, told.headers
    with TestClient(app, raise_server_exceptions=False) as client:
        response = client.get("/report", headers=headers)
    return response.status_code, response.text, response.headers


@pytest.fixture
def emulator() -> Emulator:
    return Emulator()


@pytest.fixture(
    params=[starlette_app, fastapi_app, flask_app, flask_group_app, wsgi_app], ids=lambda make: make.__name__
)
def app(request: pytest.FixtureRequest, emulator: Emulator) -> Any:
    paywall = Paywall(
        base_url="emulator:", environ={}, transport=transport(emulator), public_url="https://seller.example"
    )
    return request.param(paywall)


def test_each_request_is_sold_as_what_it_chooses(app: Any) -> None:
    for size in ("small", "large"):
        status, _, headers = ask(app, size)
        assert status == 402
        paid = ask(app, size, Wallet().pay(headers["PAYMENT-REQUIRED"]))
        assert paid[0] == 200
        assert f"sold {KEYS[size]}" in paid[1] or f"sold {size}" in paid[1]


def test_a_payment_for_one_offer_buys_no_other(app: Any) -> None:
    proof = Wallet().pay(ask(app, "small")[2]["PAYMENT-REQUIRED"])
    first = ask(app, "small", proof)
    assert ask(app, "large", proof)[0] == 409
    assert ask(app, "small", proof)[:2] == first[:2]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_choice_gives_nothing_away(app: Any, wrong: str) -> None:
    proof = Wallet().pay(ask(app, "small")[2]["PAYMENT-REQUIRED"])
    for sent in ("", proof):
        status, text, headers = ask(app, wrong, sent)
        assert (status, "sold" in text, "secret" in text) == (500, False, False)
        assert "PAYMENT-RESPONSE" not in headers
        if "offer_not_chosen" in text:  # what raises is answered by some frameworks
            # The payment that was sent may be one that settles.
            assert ("do not pay again" in text, "Nothing was charged" in text) == (bool(sent), not sent)
    assert ask(app, "small", proof)[0] == 200


@pytest.mark.parametrize(
    ("among", "mistake"),
    [
        (None, "among"),
        ((), "among"),
        ("small", "among"),
        (("small", "small"), "twice"),
        ((1,), "takes names"),
        (("",), "what is sold"),
    ],
)
def test_a_choice_that_cannot_be_made_fails_at_import(among: Any, mistake: str) -> None:
    for make in (star.paid, fast.paid, Faregate().paid, offer):
        with pytest.raises(ConfigurationError, match=mistake):
            make(lambda _request: "small", among=among)


@pytest.mark.parametrize("middleware", [asgi.PaywallMiddleware, WSGIMiddleware])
def test_a_misspelt_argument_is_answered_with_the_right_one(middleware: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^offer: .* Did you mean offers\?"):
        middleware(print, offer={"/reports": "daily_report"}, base_url="emulator:")
    for make in (star.paid, fast.paid, Faregate().paid, offer):
        with pytest.raises(ConfigurationError, match=r"amongst.* Did you mean among\?"):
            cast(Any, make)(lambda _request: "small", amongst=AMONG)


@pytest.mark.parametrize("middleware", [star.PaywallMiddleware, fast.PaywallMiddleware])
def test_a_misspelt_argument_of_starlettes_middleware_fails_the_start(middleware: Any) -> None:
    """Starlette makes it when the server starts: what is raised must be said then."""
    app = Starlette(middleware=[Middleware(middleware, offer={"/reports": "daily_report"})])
    with pytest.raises(ConfigurationError, match=r"^offer: .* Did you mean offers\?"), TestClient(app):
        pass


def test_a_request_without_a_type_fails_at_import_in_fastapi() -> None:
    """FastAPI would read it from the query string, and answer every payer with 422."""

    def choose(request: Any) -> str:
        return "daily_report"

    assert fast.paid(choose, among=("daily_report", "text_summary"))  # a type of the seller's own choice
    del choose.__annotations__["request"]
    with pytest.raises(ConfigurationError, match="Write request: Request"):
        fast.paid(choose, among=("daily_report", "text_summary"))


def test_a_function_that_nobody_could_call_fails_at_import() -> None:
    async def choose(_environ: Any) -> str:
        return "small"

    with pytest.raises(ConfigurationError, match="async"):
        wsgi.PaywallMiddleware(
            lambda _environ, _start: [],
            Paywall(base_url="emulator:", environ={}),
            offers={"/": offer(choose, among=AMONG)},
        )
    with pytest.raises(ConfigurationError, match="one argument"):
        star.paid(lambda: "small", among=AMONG)
    with pytest.raises(ConfigurationError, match="one argument"):
        PathRules({"/reports": offer(lambda: "small", among=AMONG)})
    with pytest.raises(ConfigurationError, match="function that chooses"):
        offer("small", among=AMONG)  # type: ignore[call-overload]


def test_every_possibility_is_listed(app: Any) -> None:
    if isinstance(app, FastAPI):
        assert ask(app, "small")[0] == 402
        table = fast.list_routes(app)
        assert [one.sells for one in table.offers] == list(AMONG)
        info = app.openapi()["paths"]["/report"]["get"]["x-payment-info"]
        assert [one["sells"] for one in info["among"]] == list(AMONG)
    elif isinstance(app, Starlette):
        assert [one.sells for one in star.list_routes(app).offers] == list(AMONG)
