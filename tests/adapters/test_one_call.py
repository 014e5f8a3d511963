"""One payment is for one call of what is sold, however often something behind the paywall calls it."""

from collections.abc import Callable
from typing import Any

import flask
import pytest
from fastapi import Depends, FastAPI, Request
from starlette.testclient import TestClient
from werkzeug.test import Client

import faregate.fastapi
import faregate.starlette
import faregate.wsgi
from faregate.emulator import Wallet
from faregate.flask import Faregate
from tests import django_site
from tests.attacks.site import make_paywall

django_site.ready()

from asgiref.sync import iscoroutinefunction  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.decorators import sync_and_async_middleware  # noqa: E402

from faregate.django import paid  # noqa: E402
from tests.adapters.django_views import HIDDEN, read_statuses, served  # noqa: E402


class FanOut:
    """Calls the application once for each id in the query, and joins what it answers."""

    def __init__(self, app: Any, copies: bool) -> None:
        self.app = app
        self.copies = copies

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = [await call(self.app, scope, receive, one, self.copies) for one in ids(scope["query_string"])]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"|".join(body)})


def ids(query: bytes) -> list[str]:
    return query.decode().removeprefix("ids=").split(",")


async def call(app: Any, scope: Any, receive: Any, one: str, copies: bool = True) -> bytes:
    """Call the application for this id; with a copy of the scope, or with the scope itself."""
    inner = {**scope} if copies else scope
    inner["query_string"] = f"id={one}".encode()
    got: list[bytes] = []

    async def take(message: Any) -> None:
        got.append(message.get("body", b""))

    await app(inner, receive, take)
    return b"".join(got)


def buy(client: Any, path: str) -> Any:
    unpaid = client.get(path)
    assert unpaid.status_code == 402, unpaid.status_code
    return client.get(path, headers={"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["payment-required"])})


def choose(request: Request) -> str:
    return "text_summary" if request.query_params.get("id") == "large" else "daily_report"


def make_fan(runs: list[str], copies: bool, price: Any) -> Any:
    app = FastAPI(openapi_url=None)

    @app.get("/sold", dependencies=[Depends(price)])
    async def sold(id: str = "") -> str:
        runs.append(id)
        return id

    app.add_middleware(FanOut, copies=copies)
    return app


def make_batch(runs: list[str], _copies: bool, price: Any) -> Any:
    """A paid route that gives its own router the paid work, several times."""
    app = FastAPI(openapi_url=None)

    @app.get("/one", dependencies=[Depends(price)])
    async def one(id: str = "") -> str:
        runs.append(id)
        return id

    @app.get("/sold", dependencies=[Depends(price)])
    async def batch(request: Request) -> str:
        scope = {**request.scope, "path": "/one", "raw_path": b"/one"}
        return str([await call(app.router, scope, request.receive, one) for one in ("a", "b", "c")])

    return app


def asking_client(app: Any) -> TestClient:
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    return TestClient(app, "http://seller.example", raise_server_exceptions=False)


@pytest.mark.parametrize("copies", [True, False], ids=["copied scope", "same scope"])
@pytest.mark.parametrize("make", [make_fan, make_batch])
@pytest.mark.parametrize("is_chosen", [False, True], ids=["one price", "chosen"])
def test_a_dependency_sells_one_call_of_its_route(
    make: Callable[..., Any], copies: bool, is_chosen: bool
) -> None:
    """A cheap call must not pay for a dear one either."""
    runs: list[str] = []
    price: Any = faregate.fastapi.paid("daily_report")
    if is_chosen:
        price = faregate.fastapi.paid(choose, among=("daily_report", "text_summary"))
    with asking_client(make(runs, copies, price)) as client:
        answer = buy(client, "/sold?ids=small,large,large")
    assert (answer.status_code, "payment-response" in answer.headers) == (500, False)
    assert len(runs) <= 1


def test_a_route_may_be_asked_for_its_price_several_times() -> None:
    """By its application, by itself and by the function that it calls: it is one call."""
    runs: list[str] = []
    sold = [Depends(faregate.fastapi.paid("daily_report")) for _ in range(3)]
    app = FastAPI(openapi_url=None, dependencies=sold[:1])

    @faregate.starlette.paid("daily_report")
    async def work(request: Request) -> str:
        runs.append("work")
        return "result"

    @app.get("/sold", dependencies=sold[1:])
    async def report(request: Request) -> str:
        return str(await work(request))

    with asking_client(app) as client:
        answer = buy(client, "/sold")
    assert (answer.status_code, "payment-response" in answer.headers, runs) == (200, True, ["work"])


@pytest.mark.parametrize("copies", [True, False], ids=["copied environ", "same environ"])
def test_a_group_of_flask_sells_one_call_of_a_view(copies: bool) -> None:
    runs: list[str] = []
    app, front = flask.Flask(__name__), Faregate()
    inner = app.wsgi_app

    def fan(environ: Any, start_response: Any) -> Any:
        body: list[bytes] = []

        def start(*_said: Any) -> Any:
            return body.append

        for one in ids(environ["QUERY_STRING"].encode()):
            again = {**environ} if copies else environ
            again["QUERY_STRING"] = f"id={one}"
            body += inner(again, start)
        start_response("200 OK", [])
        return body

    app.wsgi_app = fan  # type: ignore[method-assign]
    front.init_app(app, make_paywall())
    front.paid_all(app, "daily_report")
    app.config["PROPAGATE_EXCEPTIONS"] = False

    @app.get("/sold")
    def sold() -> str:
        runs.append(flask.request.args["id"])
        return runs[-1]

    answer = buy(Client(app), "/sold?ids=a,b,c")
    assert (answer.status_code, "payment-response" in answer.headers) == (500, False)
    assert len(runs) <= 1


PREFIX = {"/sold": "daily_report"}
TWO_OFFERS = "two_offers"


def test_a_prefix_sells_one_call_of_a_route() -> None:
    runs: list[str] = []
    app = FastAPI(openapi_url=None)

    @app.get("/sold")
    async def sold(id: str = "") -> str:
        runs.append(id)
        return id

    app.add_middleware(FanOut, copies=True)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall(), offers=PREFIX)
    with TestClient(app, "http://seller.example", raise_server_exceptions=False) as client:
        answer = buy(client, "/sold?ids=a,b,c")
        assert (answer.status_code, "payment-response" in answer.headers, runs) == (500, False, ["a"])
        assert buy(client, "/sold?ids=d").text == '"d"'


class Fallback:
    """Calls the application again, with another path, where it has none."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        statuses: list[int] = []

        async def look(message: Any) -> None:
            statuses.append(message.get("status", 0))

        if scope["type"] == "http":
            await self.app(scope, receive, look)
        await self.app({**scope, "path": "/sold/index"} if 404 in statuses else scope, receive, send)


def test_a_prefix_sells_a_second_call_after_an_error() -> None:
    """As of an application in the browser, whose one page answers for each path that has no file."""
    app = FastAPI(openapi_url=None)
    app.add_api_route("/sold/index", lambda: "content")
    app.add_middleware(Fallback)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall(), offers=PREFIX)
    with TestClient(app, "http://seller.example") as client:
        answer = buy(client, "/sold/elsewhere")
    assert (answer.status_code, answer.json()) == (200, "content")


def test_a_prefix_sells_one_call_of_a_view_of_flask() -> None:
    runs: list[str] = []
    app = flask.Flask(__name__)
    app.config["FAREGATE_OFFERS"] = PREFIX
    app.config["PROPAGATE_EXCEPTIONS"] = False
    app.wsgi_app = make_twice(app.wsgi_app)  # type: ignore[method-assign]
    Faregate().init_app(app, make_paywall())

    @app.get("/sold")
    def sold() -> str:
        runs.append("work")
        return "content"

    answer = buy(Client(app), "/sold")
    assert (answer.status_code, answer.get_json()["code"], runs) == (500, TWO_OFFERS, ["work"])


def make_twice(app: Any) -> Any:
    """Call an application twice, as what tries again, and answer what it answers then."""

    def ignore(*_said: Any) -> None:
        return None

    def call_twice(environ: Any, start_response: Any) -> Any:
        b"".join(app({**environ}, ignore))
        return app(environ, start_response)

    return call_twice


@sync_and_async_middleware
def answer_twice(get_response: Any) -> Any:
    """A middleware of Django that calls what is below it twice, and joins the answers as a success."""
    # Python's own knows of marked functions only from 3.12 on.
    if iscoroutinefunction(get_response):  # pyright: ignore[reportDeprecated]

        async def acall(request: HttpRequest) -> HttpResponse:
            return HttpResponse([(await get_response(request)).content for _ in range(2)])

        return acall

    def call(request: HttpRequest) -> HttpResponse:
        return HttpResponse([get_response(request).content for _ in range(2)])

    return call


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_a_middleware_of_django_sells_one_call_of_a_view(interface: str) -> None:
    runs: list[str] = []

    def work(_request: HttpRequest) -> HttpResponse:
        runs.append("work")
        return HttpResponse("content")

    def free(_request: HttpRequest) -> HttpResponse:
        runs.append("work")
        return HttpResponse("content")

    routes = (path("view", paid("daily_report")(work)), path("sold/one", free))
    below = [HIDDEN, f"{__name__}.answer_twice"]
    with served(interface, *routes, MIDDLEWARE=below, FAREGATE={"OFFERS": PREFIX}) as site:
        for place in ("/view", "/sold/one"):
            runs.clear()
            answer = site.buy(place)
            assert (answer.status_code, answer.json()["code"], runs) == (500, TWO_OFFERS, ["work"])
        assert read_statuses() == ["failed", "failed"]


# A price behind a price: the payment of the prefix is in use, so it cannot be that of the handler


def test_a_price_behind_a_paid_prefix_is_a_mistake_and_costs_nothing() -> None:
    runs: list[str] = []
    inner, outer, paywall = FastAPI(), FastAPI(openapi_url=None), make_paywall()
    price = Depends(faregate.fastapi.paid("daily_report"))
    inner.add_api_route("/report", lambda: runs.append("work"), dependencies=[price])
    inner.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    outer.mount("/sold", inner)
    outer.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall, offers=PREFIX)
    client = TestClient(outer, "http://seller.example", raise_server_exceptions=False)
    answer = buy(client, "/sold/report")
    assert (answer.status_code, "payment-response" in answer.headers, runs) == (500, False, [])


def test_a_view_behind_a_paid_prefix_of_wsgi_is_a_mistake_and_costs_nothing() -> None:
    runs: list[str] = []
    app, paywall, extension = flask.Flask("seller"), make_paywall(), Faregate()

    def work() -> str:
        runs.append("work")
        return "content"

    app.add_url_rule("/sold/report", view_func=extension.paid("daily_report")(work))
    extension.init_app(app, paywall)

    def route(environ: Any, start_response: Any) -> Any:
        return app(environ, start_response)

    client = Client(faregate.wsgi.PaywallMiddleware(route, paywall, offers=PREFIX))
    answer = buy(client, "/sold/report")
    assert (answer.status_code, "payment-response" in answer.headers, runs) == (500, False, [])


def test_a_price_behind_a_prefix_that_is_free_is_a_mistake_too() -> None:
    """Its 402 would be an error of what the prefix sells, and leave without instructions."""
    app, paywall, extension = flask.Flask("seller"), make_paywall(), Faregate()
    app.add_url_rule("/sold/report", view_func=extension.paid("daily_report")(lambda: "content"))
    extension.init_app(app, paywall)

    def route(environ: Any, start_response: Any) -> Any:
        return app(environ, start_response)

    client = Client(faregate.wsgi.PaywallMiddleware(route, paywall, offers={"/sold": "free_notes"}))
    assert client.get("/sold/report").status_code == 500
