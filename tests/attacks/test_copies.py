"""Copies of a result that a cache between the paywall and the handler keeps under a key of its own."""

from collections.abc import Callable
from typing import Any

import flask
import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse as FastAPIResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Host, Route
from starlette.testclient import TestClient

import faregate.fastapi
from faregate.checkout.copy_detection import RESULTS
from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.flask import Faregate
from faregate.starlette import PaywallMiddleware, paid
from tests import django_site
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall

django_site.ready()

from django.http import HttpResponse  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import path as django_path  # noqa: E402

import faregate.django  # noqa: E402
from tests.adapters.django_views import project  # noqa: E402

KIND = "copies under another key"
Ask = Callable[..., Any]
Key = Callable[[str], str]


def fold(path: str) -> str:
    return path.rstrip("/").lower()


def merge(_path: str) -> str:
    """One key for all paths."""
    return ""


class Cache:
    """Keeps what succeeded, with its headers, and answers with it for any method and host."""

    def __init__(self, app: Any, key: Key) -> None:
        self.app = app
        self._key = key
        self._kept: dict[str, list[Any]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        key, seen = self._key(scope["path"]), list[Any]()

        async def keep(message: Any) -> None:
            seen.append(message)
            await send(message)

        if key in self._kept:
            for message in self._kept[key]:
                await send(message)
            return
        await self.app(scope, receive, keep)
        if seen and seen[0]["status"] in (200, 302):
            self._kept[key] = seen


def serve_starlette(content: Content, key: Key) -> Ask:
    @paid("daily_report")
    async def report(request: Request) -> Response:
        return PlainTextResponse(content.mark("body"), headers={"X-Mark": content.mark("header")})

    @paid("daily_report")
    async def link(request: Request) -> Response:
        return RedirectResponse(f"https://cdn.example/?{content.mark('header')}", 302)

    async def free(request: Request) -> Response:
        return PlainTextResponse("free")

    routes = [
        Route("/sold", report, methods=["POST"]),
        Route("/link", link, methods=["POST"]),
        Host("other.example", Starlette(routes=[Route("/sold", free)])),
        Route("/sold", free),
        Route("/free", free),
    ]
    layers = [Middleware(PaywallMiddleware, paywall=make_paywall()), Middleware(Cache, key=key)]
    return _client(Starlette(routes=routes, middleware=layers))


def serve_fastapi(content: Content, key: Key) -> Ask:
    return _client(_build_fastapi(content, key, lambda: content.mark("body")))


def _build_fastapi(content: Content, key: Key, report: Any) -> FastAPI:
    app = FastAPI(openapi_url=None)
    offer = faregate.fastapi.paid("daily_report")
    app.add_api_route("/sold", report, methods=["POST"], dependencies=[Depends(offer)])
    app.add_api_route("/free", lambda: "free")
    app.add_middleware(Cache, key=key)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    return app


def _client(app: Any) -> Ask:
    return TestClient(
        app, "http://seller.example", raise_server_exceptions=False, follow_redirects=False
    ).request


def serve_flask(content: Content, key: Key) -> Ask:
    app, kept, extension = flask.Flask(__name__), dict[str, Any](), Faregate()
    run = app.wsgi_app

    def cache(environ: Any, start_response: Any) -> Any:
        place = key(environ["PATH_INFO"])
        if place in kept:
            start_response(*kept[place][0])
            return kept[place][1]
        started: list[Any] = []

        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            started[:] = [status, list(headers)]
            return start_response(status, headers)

        body = list(run(environ, start))
        if started[0].startswith("200"):
            kept[place] = (started, body)
        return body

    app.wsgi_app = cache  # type: ignore[method-assign]
    extension.init_app(app, make_paywall())
    sold = extension.paid("daily_report")(lambda: (content.mark("body"), {"X-Mark": content.mark("header")}))
    app.add_url_rule("/sold", "sold", sold, methods=["POST"])
    app.add_url_rule("/sold", "page", lambda: "free")
    app.add_url_rule("/free", "free", lambda: "free")
    client = app.test_client()

    def ask(method: str, url: str, headers: Any = None) -> Any:
        try:
            return client.open(url, method=method, headers=headers)
        except ConfigurationError:  # which a server answers
            return httpx.Response(500)

    return ask


SERVE = [serve_starlette, serve_fastapi, serve_flask]


def buy(ask: Ask, path: str = "/sold") -> Any:
    unpaid = ask("POST", path)
    assert unpaid.status_code == 402
    proof = Wallet().pay(unpaid.headers["payment-required"])
    return ask("POST", path, headers={"PAYMENT-SIGNATURE": proof})


@pytest.mark.parametrize("key", [fold, merge])
@pytest.mark.parametrize("serve", SERVE)
def test_a_copy_leaves_under_no_key(serve: Callable[[Content, Key], Ask], key: Key) -> None:
    content = Content()
    ask = serve(content, key)
    bought = buy(ask)
    assert content.mark("body") in bought.text
    assert "faregate-result" not in str(bought.headers).lower()
    for method in ("GET", "HEAD", "POST", "OPTIONS", "DELETE"):
        for path in ("/sold", "/SOLD", "/sold/", "//sold", "/free", "/other"):
            for host in ("seller.example", "other.example"):
                answer = ask(method, path, headers={"Host": host})
                loot = content.found_in([str(answer.headers).encode(), answer.text.encode()])
                figures.count(KIND, loot)
                assert not loot, (method, path, host)
                assert "faregate-result" not in str(answer.headers).lower()


def test_a_copy_of_a_redirect_leaves_under_no_key() -> None:
    content = Content()
    ask = serve_starlette(content, merge)
    bought = buy(ask, "/link")
    assert content.mark("header") in bought.headers["location"]
    for path in ("/link", "/free", "/sold"):
        answer = ask("GET", path)
        assert (answer.status_code, "location" in answer.headers) == (502, False)


def test_a_copy_without_its_headers_leaves_under_no_spelling() -> None:
    """Neither a header nor the body tells: then the path does."""

    class DropHeaders:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async def drop(message: Any) -> None:
                await send({**message, "headers": []} if "headers" in message else message)

            await self.app(scope, receive, drop)

    content = Content()
    app = _build_fastapi(content, fold, lambda: FastAPIResponse(content.mark("body")))
    app.user_middleware.append(Middleware(DropHeaders))
    ask = _client(app)
    assert content.mark("body") in buy(ask).text
    RESULTS.forget()  # as after many other results
    for method in ("GET", "HEAD", "POST", "DELETE"):
        for path in ("/sold", "/SOLD", "/sold/", "/Sold//", "/sold;v=1"):
            answer = ask(method, path)
            assert not content.found_in([answer.text.encode()]), (method, path)


@pytest.mark.parametrize("serve", SERVE)
def test_what_is_free_leaves_from_a_cache(serve: Callable[[Content, Key], Ask]) -> None:
    ask = serve(Content(), fold)
    buy(ask)
    answers = [ask("GET", "/free") for _ in range(2)]
    assert [(answer.status_code, answer.text.strip('"')) for answer in answers] == [(200, "free")] * 2


def test_middleware_may_answer_for_itself() -> None:
    """A path that no route has, and that is no spelling of a sold one, is the middleware's own."""

    class Health:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            own = PlainTextResponse("healthy") if scope.get("path") == "/healthz" else self.app
            await own(scope, receive, send)

    @paid("daily_report")
    async def report(request: Request) -> Response:
        raise AssertionError("nobody has paid")

    layers = [Middleware(PaywallMiddleware, paywall=make_paywall()), Middleware(Health)]
    ask = _client(Starlette(routes=[Route("/sold", report)], middleware=layers))
    assert ask("GET", "/healthz").text == "healthy"


def test_a_response_that_two_views_of_django_share_leaves_only_paid() -> None:
    """A memo above both prices, and no key at all."""
    content, kept = Content(), list[HttpResponse]()

    def remember(view: Any) -> Any:
        def run(request: Any) -> HttpResponse:
            if not kept:
                answer = view(request)
                if content.mark("body").encode() not in answer.content:
                    return answer  # type: ignore[no-any-return]
                kept.append(answer)
            return kept[0]

        return run

    sold = faregate.django.paid("daily_report")(lambda _request: HttpResponse(content.mark("body")))
    urls = [
        django_path("sold", remember(sold)),
        django_path("free", remember(lambda _request: HttpResponse())),
    ]
    client = Client(raise_request_exception=False)
    with project(*urls):
        unpaid = client.get("/sold")
        assert unpaid.status_code == 402
        proof = Wallet().pay(unpaid.headers["payment-required"])
        bought = client.get("/sold", headers={"PAYMENT-SIGNATURE": proof})
        assert content.mark("body").encode() in bought.content
        answer = client.get("/free")
    assert answer.status_code != 200
    assert not content.found_in([answer.content])


# Messages before the start of a response

EARLY: list[dict[str, Any]] = [
    {"type": "http.response.early_hint", "links": [b"MARK"]},
    {"type": "http.response.push", "path": "/MARK", "headers": []},
    {"type": "http.response.debug", "info": {"context": "MARK"}},
    {"type": "http.response.trailers", "headers": [(b"x", b"MARK")], "more_trailers": False},
    {"type": "http.response.pathsend", "path": "/MARK"},
    {"type": "http.response.zerocopysend", "file": "MARK"},
    {"type": "http.response.body", "body": b"MARK", "more_body": True},
    {"type": "http.response.unknown", "value": "MARK"},
    {"type": "http.response.start", "status": 103, "headers": [(b"link", b"MARK")]},
    {"type": "http.response.start", "status": 600, "headers": [(b"link", b"MARK")]},
    {"type": "http.response.start", "status": 0, "headers": [(b"link", b"MARK")]},
]


class Hasty:
    """Stands above the price, and sends a message before the application runs."""

    def __init__(self, app: Any, message: dict[str, Any]) -> None:
        self.app = app
        self._message = message

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send(dict(self._message))
        await self.app(scope, receive, send)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "message", EARLY, ids=lambda message: f"{message['type']}{message.get('status', '')}"
)
@pytest.mark.parametrize("is_paid", [False, True])
@pytest.mark.parametrize("place", ["app", "route"])
async def test_nothing_leaves_before_the_start(message: dict[str, Any], is_paid: bool, place: str) -> None:
    @paid("daily_report")
    async def report(request: Request) -> Response:
        raise AssertionError("nobody has paid")

    hasty = [Middleware(Hasty, message=message)]
    routes = [Route("/sold", report, middleware=hasty if place == "route" else [])]
    front = Middleware(PaywallMiddleware, paywall=make_paywall())
    app = Starlette(routes=routes, middleware=[front, *(hasty if place == "app" else [])])
    sent: list[Any] = []

    async def send(got: Any) -> None:
        sent.append(got)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"host", b"seller.example"), *([(b"payment-signature", b"AAAA")] if is_paid else [])]
    scope = {"type": "http", "method": "GET", "path": "/sold", "query_string": b"", "headers": headers}
    with pytest.raises(ConfigurationError):
        await app(scope, receive, send)
    figures.count(KIND, {"early"} if "MARK" in str(sent) else set())
    assert "MARK" not in str(sent)


@pytest.mark.anyio
async def test_a_free_page_may_send_hints() -> None:
    async def free(request: Request) -> Response:
        return PlainTextResponse("free")

    front = Middleware(PaywallMiddleware, paywall=make_paywall())
    app = Starlette(routes=[Route("/free", free)], middleware=[front, Middleware(Hasty, message=EARLY[0])])
    sent: list[Any] = []

    async def send(got: Any) -> None:
        sent.append(got["type"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(
        {"type": "http", "method": "GET", "path": "/free", "query_string": b"", "headers": []}, receive, send
    )
    assert sent == ["http.response.early_hint", "http.response.start", "http.response.body"]
