"""A price that no route has is said in the log at the start, and by `faregate check`; any other is not."""

import logging
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route, request_response
from starlette.testclient import TestClient

import faregate.fastapi
import faregate.starlette
from faregate.cli.routes import run_check
from faregate.fastapi import RequirePayment, paid
from faregate.routes import RouteTable
from tests.attacks.content import Content
from tests.attacks.site import make_paywall
from tests.attacks.test_mistakes import FORMS
from tests.attacks.trial import SOLD

UNSOLD = "and no route has it"


def start(app: Any, caplog: pytest.LogCaptureFixture, *, lifespan: bool = True) -> list[str]:
    """Return what the start says about prices that no route has."""
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        client = TestClient(app, raise_server_exceptions=False)
        if lifespan:
            with client:
                pass
        else:
            client.get("/")
    return [one.getMessage() for one in caplog.records if UNSOLD in one.getMessage()]


def check() -> str:
    said: list[str] = []
    assert run_check(RouteTable(()), said.append, json=False, text=True) == 1  # nothing is for sale
    return said[0]


def make_fastapi() -> FastAPI:
    app = FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    return app


def make_starlette(*routes: Any) -> Starlette:
    middleware = [Middleware(faregate.starlette.PaywallMiddleware, paywall=make_paywall())]
    return Starlette(routes=routes, middleware=middleware)


def make_gate() -> Any:
    @faregate.starlette.paid("daily_report")
    async def gate(request: Request) -> Response:
        return PlainTextResponse("content")

    return gate


# Prices that nothing asks for


Declare = Callable[[FastAPI, RequirePayment], Any]


def returned_to_a_parameter(app: FastAPI, price: RequirePayment) -> Any:
    prices = {"report": price}

    def sold(payment: Annotated[Any, Depends(lambda: prices["report"])]) -> str:
        return "content"

    app.add_api_route("/sold", sold)


def returned_by_a_function_that_counts(app: FastAPI, price: RequirePayment) -> Any:
    prices, asked = {"report": price}, list[str]()

    def get_price() -> Any:
        asked.append("report")
        return prices["report"]

    app.add_api_route("/sold", lambda: "content", dependencies=[Depends(get_price)])


def in_an_annotation_that_nothing_can_read(app: FastAPI, price: RequirePayment) -> Any:
    def sold(payment: "Annotated[Any, Depends(local)]" = None) -> str:  # noqa: F821
        return "content"

    app.router.routes.append(Route("/sold", sold))


DECLARED: tuple[Declare, ...] = (
    returned_to_a_parameter,
    returned_by_a_function_that_counts,
    in_an_annotation_that_nothing_can_read,
)


@pytest.mark.parametrize("lifespan", [True, False])
@pytest.mark.parametrize("declare", DECLARED)
def test_a_price_of_fastapi(declare: Declare, lifespan: bool, caplog: pytest.LogCaptureFixture) -> None:
    app, price = make_fastapi(), paid("daily_report")
    declare(app, price)
    [warning] = start(app, caplog, lifespan=lifespan)
    assert "Depends(paid('daily_report')) sells 'daily_report'" in warning
    assert warning in check()
    assert start(make_fastapi(), caplog) == []  # said once


def below_a_memo(gate: Any) -> Any:
    views = {"report": gate}

    async def sold(request: Request) -> Response:
        response: Response = await views["report"](request)
        return response

    return sold


def by_a_method(gate: Any) -> Any:
    class Service:
        report = staticmethod(gate)

    async def sold(request: Request) -> Response:
        response: Response = await Service.report(request)
        return response

    return sold


def by_another_method(gate: Any) -> Any:
    class Sold(HTTPEndpoint):
        report = staticmethod(gate)

        async def get(self, request: Request) -> Response:
            response: Response = await self.report(request)
            return response

    return Sold


@pytest.mark.parametrize("call", [below_a_memo, by_a_method, by_another_method])
def test_a_function_that_is_called_in_another_one(call: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = make_starlette(Route("/sold", call(make_gate())))
    [warning] = start(app, caplog)
    assert "@paid on tests.routes.test_unsold.make_gate.gate sells 'daily_report'" in warning
    assert warning in check()


# Prices that a route has


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.outcome == SOLD])
def test_no_ordinary_form_is_named(name: str, caplog: pytest.LogCaptureFixture) -> None:
    app, form = make_fastapi(), FORMS[name]
    form.write(app, Content())
    assert start(app, caplog) == []
    if form.after_start is not None:
        form.after_start(app, Content())
        assert start(app, caplog, lifespan=False) == []
    assert UNSOLD not in check()


def make_endpoint() -> Any:
    class Report(HTTPEndpoint):
        get = make_gate()

    return Report


def make_method() -> Any:
    class Views:
        @faregate.starlette.paid("daily_report")
        async def report(self, request: Request) -> Response:
            return PlainTextResponse("content")

    return Views().report


ROUTES: dict[str, Callable[[], Any]] = {
    "a function": lambda: Route("/", make_gate()),
    "a plain function": lambda: Route(
        "/", faregate.starlette.paid("daily_report")(lambda request: Response())
    ),
    "a class": lambda: Route("/", make_endpoint()),
    "a method": lambda: Route("/", make_method()),
    "a mount": lambda: Mount("/", routes=[Route("/", make_gate())]),
    "a mounted application": lambda: Mount("/", app=Starlette(routes=[Route("/", make_gate())])),
    "a mounted function": lambda: Mount("/", app=request_response(make_gate())),
}


@pytest.mark.parametrize("name", ROUTES)
def test_nor_is_one_of_starlette(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert start(make_starlette(ROUTES[name]()), caplog) == []


def test_nor_is_a_price_of_a_route_that_the_lifespan_adds(caplog: pytest.LogCaptureFixture) -> None:
    app, price = make_fastapi(), paid("daily_report")

    async def add() -> None:
        app.add_api_route("/sold", lambda: "content", dependencies=[Depends(price)])

    app.router.on_startup.append(add)
    assert start(app, caplog) == []


def test_nor_is_a_price_of_another_application(caplog: pytest.LogCaptureFixture) -> None:
    """Which has not been started, or is only a router yet."""
    prices = paid("daily_report"), paid("text_summary"), make_gate()
    other, router = FastAPI(dependencies=[Depends(prices[0])]), APIRouter(dependencies=[prices[1]])
    routes = Starlette(routes=[Route("/sold", prices[2])])
    assert start(make_fastapi(), caplog) == []
    assert all(app.routes is not None for app in (other, router, routes))  # they live until here


def test_nor_is_what_was_thrown_away(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        paid("daily_report")
        make_gate()
    assert start(make_fastapi(), caplog) == []
