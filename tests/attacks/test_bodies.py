"""Copies of a result of which a cache between the paywall and the router keeps nothing but the body."""

import gzip
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import anyio
import pytest
from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse as FastAPIResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, Router
from starlette.testclient import TestClient

import faregate.asgi
import faregate.fastapi
from faregate.emulator import Wallet
from faregate.starlette import PaywallMiddleware, paid
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall

KIND = "copies of a body alone"
Key = Callable[[str, str], str]
Ask = Callable[..., Any]


def by_path(_method: str, path: str) -> str:
    return path


def folded(_method: str, path: str) -> str:
    return path.strip("/").lower()


def one_for_all(_method: str, _path: str) -> str:
    return ""


KEYS: list[Key] = [by_path, folded, one_for_all]


class Memo:
    """Keeps the bodies of what succeeded, and answers with them in a response of its own."""

    def __init__(self, app: Any, key: Key, chunk: int = 0, kept: dict[str, bytes] | None = None) -> None:
        self.app = app
        self._key = key
        self._chunk = chunk
        self.kept: dict[str, bytes] = {} if kept is None else kept

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        key, status, bodies = self._key(scope["method"], scope["path"]), list[int](), list[bytes]()

        async def keep(message: Any) -> None:
            status.extend([message["status"]] if "status" in message else [])
            bodies.append(message.get("body", b""))
            await send(message)

        if key in self.kept:
            await self._answer(self.kept[key])(scope, receive, send)
            return
        await self.app(scope, receive, keep)
        if status == [200]:
            self.kept[key] = b"".join(bodies)

    def _answer(self, body: bytes) -> Response:
        if body.startswith(b"\x1f\x8b"):
            return Response(body, headers={"Content-Encoding": "gzip"})
        if self._chunk:
            starts = range(0, len(body), self._chunk)
            return StreamingResponse(_iterate([body[at : at + self._chunk] for at in starts]))
        return Response(body, media_type="text/plain")


async def _iterate(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def memo(key: Key, chunk: int = 0) -> Middleware:
    return Middleware(Memo, key=key, chunk=chunk)


def starlette_routes(content: Content) -> list[Any]:
    @paid("daily_report")
    async def report(request: Request) -> Response:
        return PlainTextResponse(content.mark("body") * 40)

    async def free(request: Request) -> Response:
        return PlainTextResponse(f"free: {request.url.path}, and long enough to be a result")

    return [
        Route("/sold", report, methods=["POST"]),
        Route("/sold", free),
        Route("/{path:path}", free),
    ]


def inside_starlette(content: Content, *layers: Middleware) -> Any:
    front = Middleware(PaywallMiddleware, paywall=make_paywall())
    return Starlette(routes=starlette_routes(content), middleware=[front, *layers])


def around_starlette(content: Content, *layers: Middleware) -> Any:
    app: Any = Starlette(routes=starlette_routes(content), middleware=list(layers))
    return faregate.asgi.PaywallMiddleware(app, make_paywall())


def in_a_mount(content: Content, *layers: Middleware) -> Any:
    inner = Starlette(routes=starlette_routes(content), middleware=list(layers))
    front = Middleware(PaywallMiddleware, paywall=make_paywall())
    return Starlette(routes=[Mount("/", inner)], middleware=[front])


def on_a_router(content: Content, *layers: Middleware) -> Any:
    inner = Router(routes=starlette_routes(content), middleware=list(layers))
    front = Middleware(PaywallMiddleware, paywall=make_paywall())
    return Starlette(routes=[Mount("/", inner)], middleware=[front])


def around_each_route(content: Content, *layers: Middleware) -> Any:
    kept: dict[str, bytes] = {}
    shared = [
        Middleware(Memo, **cast(Any, layer.kwargs), kept=kept) if cast(Any, layer.cls) is Memo else layer
        for layer in layers
    ]
    routes = starlette_routes(content)
    for route in routes:
        for layer in reversed(shared):  # as `Route(middleware=[...])` does
            route.app = layer.cls(route.app, *layer.args, **layer.kwargs)
    return Starlette(routes=routes, middleware=[Middleware(PaywallMiddleware, paywall=make_paywall())])


def inside_fastapi(content: Content, *layers: Middleware) -> Any:
    return _build_fastapi(content, lambda: content.mark("body") * 40, *layers)


def inside_fastapi_with_a_response(content: Content, *layers: Middleware) -> Any:
    return _build_fastapi(content, lambda: FastAPIResponse(content.mark("body") * 40), *layers)


def _build_fastapi(content: Content, report: Any, *layers: Middleware) -> Any:
    front = Middleware(faregate.fastapi.PaywallMiddleware, paywall=make_paywall())
    app = FastAPI(openapi_url=None, middleware=[front, *layers])
    price = Depends(faregate.fastapi.paid("daily_report"))
    app.add_api_route("/sold", report, methods=["POST"], dependencies=[price])
    app.add_api_route("/sold", lambda: "free, and long enough to be a result")
    app.add_api_route("/{path:path}", _answer_any)
    return app


def _answer_any(path: str) -> str:
    return f"free: {path}, and long enough to be a result"


BUILD = [
    inside_starlette,
    around_starlette,
    in_a_mount,
    on_a_router,
    around_each_route,
    inside_fastapi,
    inside_fastapi_with_a_response,
]
LAYERS: dict[str, Callable[[Key], list[Middleware]]] = {
    "a memo": lambda key: [memo(key)],
    "a memo in chunks": lambda key: [memo(key, chunk=7)],
    "a memo in gzip": lambda key: [Middleware(GZipMiddleware, minimum_size=1), memo(key)],
    "a memo of gzip": lambda key: [memo(key), Middleware(GZipMiddleware, minimum_size=1)],
    "a memo of changed bodies": lambda key: [memo(key), Middleware(Change)],
    "a memo in another layer": lambda key: [Middleware(BaseHTTPMiddleware, dispatch=pass_on), memo(key)],
}


class Change:
    """Adds to the body of each response."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def change(message: Any) -> None:
            if message["type"] == "http.response.start":
                named = [pair for pair in message["headers"] if pair[0] != b"content-length"]
                message = {**message, "headers": named}
            elif not message.get("more_body", False):
                message = {**message, "body": message.get("body", b"") + b"; all rights reserved"}
            await send(message)

        await self.app(scope, receive, change if scope["type"] == "http" else send)


async def pass_on(request: Request, call_next: Any) -> Any:
    return await call_next(request)


def _client(app: Any) -> TestClient:
    return TestClient(app, "http://seller.example", raise_server_exceptions=False, follow_redirects=False)


def buy(client: Any, **headers: str) -> Any:
    unpaid = client.post("/sold", headers=headers)
    assert unpaid.status_code == 402
    proof = Wallet().pay(unpaid.headers["payment-required"])
    return client.post("/sold", headers={**headers, "PAYMENT-SIGNATURE": proof})


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("build", BUILD)
def test_a_body_leaves_under_no_key(build: Any, layers: str) -> None:
    for at, key in enumerate(KEYS):
        attack(build, key, layers, "gzip" if at % 2 else "identity")


def attack(build: Any, key: Key, layers: str, encoding: str) -> None:
    content = Content()
    client = _client(build(content, *LAYERS[layers](key)))
    bought = buy(client, **{"Accept-Encoding": encoding})
    assert content.mark("body") in bought.text
    assert "faregate-result" not in bought.headers
    for method in ("GET", "POST"):
        for path in ("/sold", "/SOLD", "/free"):
            for headers in ({}, {"Accept-Encoding": "identity"}, {"PAYMENT-SIGNATURE": "AAAA"}):
                answer = client.request(method, path, headers=headers)
                loot = content.found_in([answer.content, answer.text.encode()])
                figures.count(KIND, loot)
                assert not loot, (method, path, headers)
                assert "faregate-result" not in answer.headers


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("build", BUILD)
def test_what_is_free_leaves_from_a_memo(build: Any, layers: str) -> None:
    client = _client(build(Content(), *LAYERS[layers](lambda method, path: method + path)))
    buy(client)
    for _ in range(2):
        for path in ("/free", "/other", "/sold"):
            answer = client.get(path)
            assert (answer.status_code, "free" in answer.text) == (200, True), path


def test_a_route_may_give_away_what_another_sells() -> None:
    """As to members: the route itself has answered, so it is no copy."""
    content = Content()

    async def members(request: Request) -> Response:
        return PlainTextResponse(content.mark("body") * 40)

    @paid("daily_report")
    async def report(request: Request) -> Response:
        return await members(request)

    routes = [Route("/sold", report, methods=["POST"]), Route("/members", members)]
    layers = [
        Middleware(PaywallMiddleware, paywall=make_paywall()),
        Middleware(BaseHTTPMiddleware, dispatch=pass_on),
        Middleware(GZipMiddleware, minimum_size=1),
        Middleware(CORSMiddleware, allow_origins=["*"]),
    ]
    client = _client(Starlette(routes=routes, middleware=layers))
    buy(client)
    for _ in range(2):
        assert content.mark("body") in client.get("/members", headers={"Origin": "https://a.example"}).text


def test_middleware_may_answer_for_itself_after_a_sale() -> None:
    class Own:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            answers: dict[Any, Any] = {
                "/healthz": PlainTextResponse("ok"),
                "/file": StreamingResponse(_iterate([b"x" * 5000] * 3)),
                "/events": StreamingResponse(_iterate([b"data: 1\n\n"]), media_type="text/event-stream"),
                "/empty": Response(status_code=204),
                "/zipped": Response(gzip.compress(b"own"), headers={"Content-Encoding": "gzip"}),
                "/unzipped": Response(b"no gzip at all", headers={"Content-Encoding": "gzip"}),
            }
            await answers.get(scope.get("path"), self.app)(scope, receive, send)

    client = _client(inside_starlette(Content(), Middleware(Own)))
    buy(client)
    assert client.get("/healthz").text == "ok"
    assert len(client.get("/file").content) == 15_000
    assert client.get("/events").text == "data: 1\n\n"
    assert client.get("/empty").status_code == 204
    assert client.get("/zipped").text == "own"
    with client.stream("GET", "/unzipped") as answer:
        assert b"".join(answer.iter_raw()) == b"no gzip at all"
    assert client.get("/free").text.startswith("free: /free")


class Feed:
    """Sends a chunk of `/feed`, and the next one when the first has arrived, all in one message."""

    arrived: list[Any]

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") != "/feed":
            await self.app(scope, receive, send)
            return
        headers = iter([(b"content-type", b"application/x-ndjson"), (b"x-own", b"1")])
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        buffer = bytearray(b'{"tick": 1, "of": "a feed"}')
        message = {"type": "http.response.body", "body": memoryview(buffer), "more_body": True}
        await send(message)
        assert self.arrived, "the first chunk is held"
        message["body"], message["more_body"] = b"!", False
        await send(message)


def test_a_feed_of_middleware_is_not_held_after_a_sale() -> None:
    app = inside_starlette(Content(), Middleware(Feed))
    buy(_client(app))
    Feed.arrived = arrived = list[Any]()

    async def send(message: Any) -> None:
        shown = {"headers": list(message["headers"])} if "headers" in message else {}
        body = {"body": bytes(message["body"])} if "body" in message else {}
        arrived.append({**message, **shown, **body})

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/feed", "raw_path": b"/feed", "query_string": b""}
    scope |= {"root_path": "", "scheme": "http", "headers": [(b"host", b"seller.example")]}
    anyio.run(app, scope, receive, send)
    start, first, last = arrived
    assert (b"x-own", b"1") in start["headers"]
    assert (first["body"], last["body"]) == (b'{"tick": 1, "of": "a feed"}', b"!")


def test_what_middleware_said_before_it_was_sold_is_no_copy() -> None:
    words = '{"status":"well","since":"today"}'

    class Own:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            health = PlainTextResponse(words)
            await (health if scope.get("path") == "/healthz" else self.app)(scope, receive, send)

    @paid("daily_report")
    async def report(request: Request) -> Response:
        return PlainTextResponse(words)

    front = Middleware(PaywallMiddleware, paywall=make_paywall())
    routes = [Route("/sold", report, methods=["POST"])]
    client = _client(Starlette(routes=routes, middleware=[front, Middleware(Own)]))
    for _ in range(2):
        assert client.get("/healthz").text == words
        assert buy(client).text == words


def test_an_error_with_the_body_of_a_result_is_withheld() -> None:
    content, kept = Content(), list[str]()

    class Stale:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            stale = PlainTextResponse("".join(kept), 404)
            await (stale if scope.get("path") == "/stale" else self.app)(scope, receive, send)

    client = _client(inside_starlette(content, Middleware(Stale)))
    kept.append(buy(client).text)
    answer = client.get("/stale")
    assert answer.status_code == 502
    assert not content.found_in([answer.content])
