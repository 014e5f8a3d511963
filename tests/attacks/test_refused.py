"""Below a refused prefix nothing runs that has no offer, and whatever has one is sold."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, WebSocket
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Host, Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

import faregate.fastapi
from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.asgi import require_payment
from faregate.emulator import Wallet
from faregate.offers import offer
from faregate.paywall import Paywall
from faregate.starlette import PaywallMiddleware, paid
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall
from tests.attacks.sites.open_apps import SHELVES

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"]
Build = Callable[[Paywall, Content], Any]


def running(content: Content) -> Any:
    """An endpoint without a price: it must not run."""

    async def endpoint(request: Request) -> Response:
        content.runs += 1
        return PlainTextResponse(content.mark("body"))

    return endpoint


def sold(content: Content) -> Any:
    return paid("daily_report")(running(content))


def closing(paywall: Paywall) -> list[Middleware]:
    return [Middleware(PaywallMiddleware, paywall=paywall, refuse=["/closed"])]


def starlette_routes(paywall: Paywall, content: Content) -> Any:
    class Class(HTTPEndpoint):
        @paid("daily_report")
        async def post(self, request: Request) -> Response:
            content.runs += 1
            return PlainTextResponse(content.mark("body"))

        async def get(self, request: Request) -> Response:
            content.runs += 1
            return PlainTextResponse(content.mark("body"))

    inner = [Route("/deep", running(content), methods=METHODS), Route("/sold", sold(content))]
    return Starlette(
        routes=[
            Route("/closed", running(content), methods=METHODS),
            Route("/closed/route", running(content), methods=METHODS),
            Route("/closed/class", Class),
            Route("/closed/slash/", running(content)),
            Mount("/closed/mount", routes=[Mount("/more", routes=inner)]),
            Mount("/closed/app", app=Starlette(routes=inner)),
            Mount("/closed/router", app=Router(inner)),
            Host("files.example", Router([Route("/closed/host", running(content), methods=METHODS)])),
            Route("/closed/sold", sold(content), methods=["GET", "POST"]),
            Route("/{rest:path}", running(content), methods=METHODS),
        ],
        middleware=closing(paywall),
    )


def fastapi_routes(paywall: Paywall, content: Content) -> Any:
    app, router, deep, inner = FastAPI(openapi_url=None), APIRouter(), APIRouter(), FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall, refuse=["/closed"])

    async def run() -> str:
        content.runs += 1
        return content.mark("body")

    offers = [Depends(faregate.fastapi.paid("daily_report"))]
    for one in (deep, inner):
        one.add_api_route("/deep", run, methods=METHODS)
        one.add_api_route("/sold", run, dependencies=offers)
    router.include_router(deep, prefix="/more")
    app.include_router(router, prefix="/closed/mount")
    app.include_router(deep, prefix="/closed/router")
    app.mount("/closed/app", inner)
    for path in ("", "/route", "/host"):
        app.add_api_route(f"/closed{path}", run, methods=METHODS)
    app.add_api_route("/closed/class", run)
    app.add_api_route("/closed/class", run, methods=["POST"], dependencies=offers)
    app.add_api_route("/closed/sold", run, methods=["GET", "POST"], dependencies=offers)
    return app


def behind_a_middleware(paywall: Paywall, content: Content) -> Any:
    """Which copies the scope, and stands between the paywall and the router."""

    async def passes(request: Request, call_next: Any) -> Any:
        return await call_next(request)

    app = starlette_routes(paywall, content)
    app.user_middleware.append(Middleware(BaseHTTPMiddleware, dispatch=passes))
    return app


def behind_the_asgi_middleware(paywall: Paywall, content: Content) -> Any:
    app = starlette_routes(paywall, content)
    app.user_middleware.clear()
    return ASGIMiddleware(app, paywall, refuse=["/closed"])


APPS: dict[str, Build] = {
    one.__name__: one
    for one in (starlette_routes, fastapi_routes, behind_a_middleware, behind_the_asgi_middleware)
}
FREE = [
    "",
    "/route",
    "/class",
    "/slash",
    "/slash/",
    "/mount/more/deep",
    "/app/deep",
    "/router/deep",
    "/host",
    "/x",
    "/x/",
]
SOLD = ["/sold", "/mount/more/sold", "/app/sold", "/router/sold"]


@pytest.mark.parametrize("name", APPS)
def test_what_has_no_offer_does_not_run(name: str) -> None:
    content = Content()
    client = TestClient(APPS[name](make_paywall(), content), base_url="http://seller.example")
    tries, leaks = 0, list[str]()
    for path in FREE:
        for method in METHODS:
            if (path, method) == ("/class", "POST"):
                continue
            host = "files.example" if path == "/host" else "seller.example"
            answer = client.request(method, f"http://{host}/closed{path}", follow_redirects=False)
            tries += 1
            if content.runs or answer.status_code != 403:
                leaks.append(f"{method} {path}: {answer.status_code}")
    figures.count("handlers below a refused prefix", leaks, tries)
    assert (leaks, content.runs) == ([], 0)


@pytest.mark.parametrize("name", APPS)
@pytest.mark.parametrize(
    ("path", "method"), [*((path, "GET") for path in SOLD), ("/sold", "POST"), ("/class", "POST")]
)
def test_what_has_an_offer_is_sold(name: str, path: str, method: str) -> None:
    content = Content()
    client = TestClient(APPS[name](make_paywall(), content), base_url="http://seller.example")
    unpaid = client.request(method, f"/closed{path}")
    assert (unpaid.status_code, content.runs) == (402, 0)
    proof = Wallet().pay(unpaid.headers["payment-required"])
    answer = client.request(method, f"/closed{path}", headers={"PAYMENT-SIGNATURE": proof})
    assert (answer.status_code, content.mark("body") in answer.text, content.runs) == (200, True, 1)
    assert client.request("OPTIONS", f"/closed{path}").status_code in (204, 403)


def test_a_frontend_of_fastapi_is_sold_or_does_not_answer(tmp_path: Path) -> None:
    content = Content()
    (tmp_path / "index.html").write_text(content.mark("body"))
    app = FastAPI(openapi_url=None)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall(), refuse=["/closed"])
    priced = APIRouter(dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    priced.frontend("/sold", directory=tmp_path)
    app.include_router(priced, prefix="/closed")
    app.frontend("/closed/free", directory=tmp_path)
    client = TestClient(app)
    assert [client.get(f"/closed/{name}/").status_code for name in ("free", "sold")] == [403, 402]
    proof = Wallet().pay(client.get("/closed/sold/").headers["payment-required"])
    assert client.get("/closed/sold/", headers={"PAYMENT-SIGNATURE": proof}).text == content.mark("body")


# Applications that nobody can look into


def static(content: Content, folder: Path) -> Any:
    (folder / "secret").write_text(content.mark("body"))
    return StaticFiles(directory=folder)


def opening(content: Content, folder: Path) -> Any:
    """Sells by itself: its offer is known only when it has run."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        content.runs += 1
        await require_payment(scope, offer("daily_report"))

    return app


def giving(content: Content, folder: Path) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        content.runs += 1
        await PlainTextResponse(content.mark("body"))(scope, receive, send)

    return app


def shelf(name: str) -> Callable[[Content, Path], Any]:
    return lambda content, _folder: SHELVES[name](content)


OPAQUE: dict[str, Callable[[Content, Path], Any]] = {
    "files": static,
    "one that opens the gate": opening,
    "one that gives": giving,
    **{name: shelf(name) for name in SHELVES},
}


@pytest.mark.parametrize("name", OPAQUE)
@pytest.mark.parametrize("mounted", [False, True])
def test_an_application_that_nobody_can_look_into_is_not_called(
    name: str, mounted: bool, tmp_path: Path
) -> None:
    content = Content()
    app = OPAQUE[name](content, tmp_path)
    if mounted:
        app = Starlette(routes=[Mount("/", app=app)], middleware=closing(make_paywall()))
    else:
        app = ASGIMiddleware(app, make_paywall(), refuse=["/closed"])
    client = TestClient(app)
    answers = [client.request(method, "/closed/secret") for method in METHODS]
    leaks = [answer for answer in answers if content.found_in([answer.content])]
    figures.count("handlers below a refused prefix", leaks, len(answers))
    assert ({answer.status_code for answer in answers}, content.runs) == ({403}, 0)


def test_an_opaque_application_is_sold_by_a_longer_prefix() -> None:
    content = Content()
    app = ASGIMiddleware(
        giving(content, Path()), make_paywall(), offers={"/closed/sold": "daily_report"}, refuse=["/closed"]
    )
    client = TestClient(app)
    unpaid = client.get("/closed/sold/today")
    proof = Wallet().pay(unpaid.headers["payment-required"])
    answer = client.get("/closed/sold/today", headers={"PAYMENT-SIGNATURE": proof})
    assert (unpaid.status_code, answer.status_code, content.runs) == (402, 200, 1)


# A paywall below the one that refuses


def inner_prefix(paywall: Paywall, content: Content) -> Any:
    return ASGIMiddleware(giving(content, Path()), paywall, offers={"/sold": "daily_report"})


def inner_app(paywall: Paywall, content: Content) -> Any:
    routes = [Route("/sold", sold(content)), Route("/free", running(content))]
    return Starlette(routes=routes, middleware=[Middleware(PaywallMiddleware, paywall=paywall)])


def inner_app_with_a_prefix(paywall: Paywall, content: Content) -> Any:
    front = Middleware(PaywallMiddleware, paywall=paywall, offers={"/sold": "daily_report"})
    routes = [Route("/sold", running(content)), Route("/free", running(content))]
    return Starlette(routes=routes, middleware=[front])


@pytest.mark.parametrize("inner", [inner_prefix, inner_app, inner_app_with_a_prefix])
def test_what_another_paywall_sells_below_it_is_sold_and_the_rest_does_not_run(inner: Build) -> None:
    """It was charged, and its result withheld."""
    content, paywall = Content(), make_paywall()
    app = Starlette(routes=[Mount("/closed", app=inner(paywall, content))], middleware=closing(paywall))
    client = TestClient(app)
    refused = client.get("/closed/free")
    figures.count("handlers below a refused prefix", [content.runs] * content.runs)
    assert (refused.status_code, content.runs) == (403, 0)
    unpaid = client.get("/closed/sold")
    assert unpaid.status_code == 402
    proof = Wallet().pay(unpaid.headers["payment-required"])
    answer = client.get("/closed/sold", headers={"PAYMENT-SIGNATURE": proof})
    assert (answer.status_code, answer.text, content.runs) == (200, content.mark("body"), 1)
    assert "payment-response" in answer.headers


@pytest.mark.parametrize("status", [200, 302, 401, 404])
def test_what_answers_in_place_of_a_handler_that_is_sold_is_refused(status: int) -> None:
    """On closed ground nothing is free, an error neither."""

    async def answer(request: Request, call_next: Any) -> Response:
        return PlainTextResponse("free", status)

    inside = Middleware(BaseHTTPMiddleware, dispatch=answer)
    routes = [Route("/closed/sold", sold(Content()))]
    client = TestClient(
        Starlette(routes=routes, middleware=[*closing(make_paywall()), inside]), raise_server_exceptions=False
    )
    refused = client.get("/closed/sold", follow_redirects=False)
    assert (refused.status_code, "free" in refused.text) == (502 if status < 400 else 403, False)


# Websockets


@pytest.mark.parametrize("path", ["/closed/socket", "/closed/paid-socket"])
def test_no_websocket_below_it_runs(path: str) -> None:
    ran: list[str] = []

    async def socket(websocket: Any) -> None:
        ran.append(websocket.url.path)
        await websocket.accept()

    async def paid_socket(websocket: Any) -> None:
        await socket(websocket)

    fast = FastAPI(openapi_url=None)
    fast.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall(), refuse=["/closed"])

    @fast.websocket("/closed/socket")
    async def fast_socket(websocket: WebSocket) -> None:
        await socket(websocket)

    routes = [
        WebSocketRoute("/closed/socket", socket),
        WebSocketRoute("/closed/paid-socket", paid("daily_report")(paid_socket)),
    ]
    for app in (Starlette(routes=routes, middleware=closing(make_paywall())), fast):
        with pytest.raises(WebSocketDisconnect), TestClient(app).websocket_connect(path):
            pass
    figures.count("handlers below a refused prefix", ran, 2)
    assert ran == []
