"""What FastAPI and Starlette do around a paid handler: dependencies, sub-applications, tasks, odd scopes."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator
from typing import Annotated, Any, cast

import anyio
import httpx
import pytest
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, HTTPException, WebSocket
from fastapi.exceptions import ResponseValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.sse import EventSourceResponse
from fastapi.testclient import TestClient
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

import faregate.starlette
from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.errors import ConfigurationError
from faregate.fastapi import Payment, PaywallMiddleware, paid
from faregate.merchant.client import MerchantClient
from tests.adapters.asgi import (
    CONTENT,
    a_paywall,
    ask,
    buy,
    calling,
    collect,
    connecting,
    header,
    http_scope,
    never,
    proof_for,
    report,
    shop_of,
)
from tests.servers.http import serving
from tests.support.headers import decode_header
from tests.support.waiting import eventually

SOLD = paid("daily_report")


class Shop:
    """A FastAPI application behind a paywall, and its service."""

    def __init__(self, emulator: Emulator | None = None, **settings: Any) -> None:
        self.emulator = emulator or Emulator()
        self.app = FastAPI()
        self.app.add_middleware(PaywallMiddleware, paywall=a_paywall(self.emulator, **settings))

    def sell(self, endpoint: Callable[..., Any], *dependencies: Any, path: str = "/", **options: Any) -> None:
        self.app.add_api_route(path, endpoint, dependencies=[Depends(SOLD), *dependencies], **options)

    def buy(self, path: str = "/") -> httpx.Response:
        with calling(self.app) as http:
            return buy(http, path)

    @property
    def outcomes(self) -> list[str]:
        """The status of each transaction."""
        transport: Any = EmbeddedTransport(self.emulator)
        with MerchantClient(TEST_KEY, "http://service.example", transport=transport) as client:
            return [transaction.status or "" for transaction in client.iter_transactions()]

    @property
    def completions(self) -> int:
        return sum(call.path.endswith("/complete") for call in self.emulator.calls())


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def content() -> str:
    return CONTENT


# Dependencies


@pytest.mark.parametrize("scope", ["request", "function"])
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_dependency_that_yields_ends_before_the_result_or_after_it_and_nothing_leaks(
    shop: Shop, scope: Any, kind: str
) -> None:
    """With `scope="function"` it ends before the payment is taken, by default after the result is sent."""
    seen = list[str]()

    async def awaiting() -> AsyncGenerator[str]:
        yield "open"
        seen.append(f"closed after {shop.completions} completions")

    def blocking() -> Generator[str]:
        yield "open"
        seen.append(f"closed after {shop.completions} completions")

    dependency: Callable[..., Any] = awaiting if kind == "async" else blocking

    async def endpoint(opened: Annotated[str, Depends(dependency, scope=scope)]) -> str:
        return CONTENT

    shop.sell(endpoint)
    with calling(shop.app) as http:
        assert buy(http, "/").json() == CONTENT
    assert eventually(lambda: len(seen) == 1)
    assert seen == [f"closed after {0 if scope == 'function' else 1} completions"]


def test_a_function_dependency_that_fails_afterwards_is_not_charged(shop: Shop) -> None:
    async def commits() -> AsyncGenerator[None]:
        yield
        raise HTTPException(503, "could not commit")

    shop.sell(content, Depends(commits, scope="function"))
    answer = shop.buy()
    assert (answer.status_code, CONTENT in answer.text) == (503, False)
    assert shop.outcomes == ["failed"]


def test_a_request_dependency_that_fails_afterwards_cannot_take_back_what_is_sold(shop: Shop) -> None:
    async def late() -> AsyncGenerator[None]:
        yield
        raise RuntimeError("too late")

    shop.sell(content, Depends(late))
    answer = shop.buy()
    assert (answer.status_code, answer.json()) == (200, CONTENT)
    assert shop.outcomes == ["succeeded"]


def test_dependencies_before_the_offer_come_first(shop: Shop) -> None:
    async def members_only() -> None:
        raise HTTPException(401)

    shop.app.add_api_route("/", content, dependencies=[Depends(members_only), Depends(SOLD)])
    with calling(shop.app) as http:
        assert http.get("/", headers={"PAYMENT-SIGNATURE": "YQ=="}).status_code == 401
    assert [call.path for call in shop.emulator.calls()] == []


def test_a_response_model_that_does_not_fit_is_not_charged(shop: Shop) -> None:
    class Reply(BaseModel):
        number: int

    async def endpoint() -> Any:
        return {"number": CONTENT}

    shop.sell(endpoint, response_model=Reply)
    answer = shop.buy()
    assert (answer.status_code, CONTENT in answer.text) == (500, False)
    assert shop.outcomes == ["failed"]


async def tell(_request: Any, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, 500)


async def tell_in_middleware(request: Request, call_next: Any) -> Any:
    try:
        return await call_next(request)
    except Exception as error:
        return await tell(request, error)


def tell_outside(app: FastAPI) -> None:
    app.middleware("http")(tell_in_middleware)


def tell_inside(app: FastAPI) -> None:
    app.user_middleware.append(Middleware(BaseHTTPMiddleware, dispatch=tell_in_middleware))


@pytest.mark.parametrize(
    "set_up",
    [
        lambda app: setattr(app, "debug", True),
        lambda app: app.add_exception_handler(Exception, tell),
        lambda app: app.add_exception_handler(ResponseValidationError, tell),
        tell_outside,
        tell_inside,
    ],
    ids=["debug", "all exceptions", "this exception", "middleware outside", "middleware inside"],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_result_that_does_not_fit_its_model_is_in_no_error(
    shop: Shop, caplog: pytest.LogCaptureFixture, is_stream: bool, set_up: Callable[[FastAPI], Any]
) -> None:
    async def whole() -> Any:
        return {CONTENT: CONTENT}

    async def stream() -> AsyncIterable[dict[str, int]]:
        yield cast(Any, {CONTENT: CONTENT})

    set_up(shop.app)
    if is_stream:
        shop.sell(stream)
    else:
        shop.sell(whole, response_model=dict[str, int])
    answer = shop.buy()
    assert (answer.status_code, CONTENT in answer.text) == (500, False)
    assert shop.outcomes == ["failed"]
    assert [CONTENT in record.getMessage() for record in caplog.records if record.name == "faregate.sale"]


def test_a_free_result_that_does_not_fit_its_model_is_in_its_error(shop: Shop) -> None:
    shop.app.add_exception_handler(ResponseValidationError, tell)
    shop.app.add_api_route("/free", lambda: {"number": CONTENT}, response_model=dict[str, int])
    with calling(shop.app) as http:
        proof = {"PAYMENT-SIGNATURE": "YQ=="}
        assert CONTENT in http.get("/free", headers=proof).text


async def pass_on(request: Request, call_next: Any) -> Any:
    return await call_next(request)


@pytest.mark.parametrize("is_raised", [True, False])
def test_a_stream_that_is_cut_is_not_charged_behind_middleware_that_ends_it(
    shop: Shop, is_raised: bool
) -> None:
    """A `BaseHTTPMiddleware` sends the end of a response whose application has raised meanwhile."""

    class Cut(Response):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"part", "more_body": True})
            if is_raised:
                raise RuntimeError("in the middle")

    shop.app.user_middleware.append(Middleware(BaseHTTPMiddleware, dispatch=pass_on))
    shop.sell(lambda: Cut())
    answer = shop.buy()
    assert (answer.status_code, answer.json()["code"]) == (500, "not_billable")
    assert shop.outcomes == ["failed"]


class Apologize:
    """Answers each exception with a 200, as envelopes of APIs do, also after the start of a response."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self.app(scope, receive, send)
        except Exception:
            await JSONResponse({"sorry": True})(scope, receive, send)


@pytest.mark.parametrize("has_started", [True, False])
@pytest.mark.parametrize("place", ["application", "route", "mount"])
def test_what_middleware_inside_answers_for_an_exception_is_not_charged(
    shop: Shop, place: str, has_started: bool
) -> None:
    async def fail(request: Request) -> Response:
        async def chunks() -> AsyncGenerator[bytes]:
            yield b"part"
            raise RuntimeError("in the middle")

        if not has_started:
            raise RuntimeError("before")
        return StreamingResponse(chunks())

    middleware = [Middleware(Apologize)]
    route = Route("/", faregate.starlette.paid("daily_report")(fail))
    if place == "application":
        shop.app.user_middleware += middleware
        shop.app.router.routes.append(route)
    elif place == "route":
        shop.app.router.routes.append(Route("/", route.endpoint, middleware=middleware))
    else:
        shop.app.router.routes.append(Mount("/", routes=[route], middleware=middleware))
    answer = shop.buy()
    assert (answer.status_code, answer.json()["code"]) == (500, "not_billable")
    assert shop.outcomes == ["failed"]


def test_another_application_in_place_of_one_that_cut_its_response_is_sold(shop: Shop) -> None:
    async def cut(request: Request) -> Response:
        async def chunks() -> AsyncGenerator[bytes]:
            yield b"part"
            raise RuntimeError("in the middle")

        return StreamingResponse(chunks())

    async def choose(scope: Any, receive: Any, send: Any) -> None:
        async def drop(message: Any) -> None:
            await asyncio.sleep(0)

        with contextlib.suppress(RuntimeError):
            await Starlette(routes=[Route("/", cut)])(scope, receive, drop)
        await PlainTextResponse(CONTENT)(scope, receive, send)

    inner = Starlette(routes=[Mount("/", choose)])
    app = ASGIMiddleware(inner, a_paywall(shop.emulator), offers={"/": "daily_report"})
    with calling(app) as http:
        assert buy(http, "/").text == CONTENT
    assert shop.outcomes == ["succeeded"]


def test_a_request_that_does_not_validate_is_not_charged(shop: Shop) -> None:
    async def endpoint(number: int) -> str:
        return CONTENT

    shop.sell(endpoint)
    assert shop.buy("/?number=x").status_code == 422
    assert shop.outcomes == ["failed"]


def test_a_dependency_override_for_tests_replaces_the_paywall() -> None:
    app = FastAPI()
    app.add_api_route("/", lambda: CONTENT, dependencies=[Depends(SOLD)])
    app.dependency_overrides[SOLD] = lambda: Payment(None)
    assert TestClient(app).get("/").json() == CONTENT


def test_exception_handlers_answer_for_failed_work_and_nothing_is_charged(shop: Shop) -> None:
    class OutOfPaper(Exception): ...

    @shop.app.exception_handler(OutOfPaper)
    async def explain(request: Request, error: OutOfPaper) -> Response:
        return JSONResponse({"paper": "none"}, 507)

    async def endpoint() -> str:
        raise OutOfPaper

    shop.sell(endpoint)
    answer = shop.buy()
    assert (answer.status_code, answer.json()) == (507, {"paper": "none"})
    assert shop.outcomes == ["failed"]


# Background tasks


@pytest.mark.parametrize("sells", ["daily_report", "slow_settlement"])
def test_background_tasks_run_for_what_is_released_and_only_then(shop: Shop, sells: str) -> None:
    ran = list[str]()

    async def later(word: str) -> None:
        ran.append(f"{word} after {shop.completions} completions")

    async def adds_one(tasks: BackgroundTasks) -> None:
        tasks.add_task(later, "dependency")

    @shop.app.get("/", dependencies=[Depends(paid(sells)), Depends(adds_one)])
    async def endpoint(tasks: BackgroundTasks) -> str:
        tasks.add_task(later, "handler")
        return CONTENT

    with calling(shop.app) as http:
        released = buy(http, "/").status_code == 200
    assert released == (sells == "daily_report")
    if released:
        assert eventually(lambda: len(ran) == 2)
    assert ran == (["dependency after 1 completions", "handler after 1 completions"] if released else [])


class Passes(BaseHTTPMiddleware):
    """Gives the response on, in the way of most middleware that users write."""

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        response: Response = await call_next(request)
        return response


class Rewrites(BaseHTTPMiddleware):
    """Reads the whole response, and answers with another."""

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        response = await call_next(request)
        body = b"".join([chunk async for chunk in response.body_iterator])
        return Response(body, response.status_code, media_type="application/json")


@pytest.mark.parametrize("inside", [[Passes], [Rewrites], [Passes, Rewrites]])
@pytest.mark.parametrize("sells", ["daily_report", "slow_settlement"])
def test_a_middleware_inside_lets_nothing_run_before_the_proof(sells: str, inside: list[Any]) -> None:
    """Background tasks, the handler's own too, and what dependencies do after their `yield`."""
    ran, shop = list[str](), Shop()
    # `add_middleware` would put them outside of the paywall.
    shop.app.user_middleware.extend(Middleware(kind) for kind in inside)

    async def later(word: str) -> None:
        ran.append(f"{word} after {shop.completions} completions")

    async def database() -> AsyncGenerator[None]:
        yield
        await later("commit")

    sold = [Depends(paid(sells)), Depends(database)]

    @shop.app.get("/adds", dependencies=sold)
    async def adds(tasks: BackgroundTasks) -> str:
        tasks.add_task(later, "task")
        return CONTENT

    @shop.app.get("/answers", dependencies=sold)
    async def answers() -> Response:
        return PlainTextResponse(CONTENT, background=BackgroundTask(later, "task"))

    with calling(shop.app) as http:
        for count, path in enumerate(("/adds", "/answers"), 1):
            ran.clear()
            if buy(http, path).status_code == 200:
                assert eventually(lambda: len(ran) == 2)
                assert ran == [f"task after {count} completions", f"commit after {count} completions"]
            else:
                time.sleep(0.05)
                assert (sells, ran) == ("slow_settlement", [])


# Streams


def _async_chunks(size: int) -> Any:
    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(size):
            yield b"x"

    return chunks()


def _sync_chunks(size: int) -> Any:
    return (b"x" for _ in range(size))


@pytest.mark.parametrize("chunks", [_async_chunks, _sync_chunks])
@pytest.mark.parametrize("size", [100, 101])
def test_a_stream_is_sold_up_to_the_bound_and_refused_beyond_it(
    shop: Shop, chunks: Callable[[int], Any], size: int, caplog: pytest.LogCaptureFixture
) -> None:
    @shop.app.get("/stream/{name}", dependencies=[Depends(paid("daily_report", max_result_bytes=100))])
    async def endpoint(name: str) -> StreamingResponse:
        return StreamingResponse(chunks(size))

    with caplog.at_level(logging.WARNING, "faregate"):
        answer = shop.buy("/stream/one?secret=1")
    if size == 100:
        assert (answer.status_code, answer.content, shop.outcomes) == (200, b"x" * 100, ["succeeded"])
        assert answer.headers["content-length"] == "100"
        return
    assert (answer.status_code, answer.json()["code"]) == (500, "result_too_large")
    assert b"xx" not in answer.content
    assert shop.outcomes == ["failed"]
    [said] = [record.message for record in caplog.records if "returned nothing" in record.message]
    assert said.startswith(
        "GET /stream/one returned nothing that can be sold: the result has more than 100 bytes. "
        "To sell it, raise max_result_bytes: of this offer, or of the paywall [txn_"
    )


def test_lines_of_json_that_an_endpoint_yields_are_one_result(shop: Shop) -> None:
    async def endpoint() -> AsyncGenerator[dict[str, int]]:
        for number in range(3):
            yield {"number": number}

    shop.sell(endpoint)
    assert shop.buy().text.split() == ['{"number":0}', '{"number":1}', '{"number":2}']


async def _cut_events() -> AsyncGenerator[dict[str, int]]:
    yield {"number": 1}
    await asyncio.sleep(0.01)
    raise RuntimeError("in the middle")


def _cut_events_in_a_thread() -> Generator[dict[str, int]]:
    yield {"number": 1}
    raise RuntimeError("in the middle")


class SendWhole:
    """Sends a stream in one piece when it is complete."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        messages: list[Any] = []

        async def collect(message: Any) -> None:
            messages.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                await send(messages[0])
                body = b"".join(each.get("body", b"") for each in messages[1:])
                await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, collect)


@pytest.mark.parametrize(
    "middleware", [[], [Middleware(GZipMiddleware, minimum_size=0)], [Middleware(SendWhole)]]
)
@pytest.mark.parametrize("events", [_cut_events, _cut_events_in_a_thread])
def test_events_that_are_cut_are_not_charged(shop: Shop, events: Any, middleware: list[Middleware]) -> None:
    """FastAPI makes them in a task of its own. If it raises, the response first ends as if it were whole."""
    shop.app.user_middleware += middleware
    shop.sell(events, response_class=EventSourceResponse)
    assert shop.buy().status_code == 500
    assert shop.outcomes == ["failed"]


class Produced(StreamingResponse):
    """Sends what a task makes, which closes its channel before it closes its connection."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async with anyio.create_task_group() as group:
            channel, parts = anyio.create_memory_object_stream[bytes](10)
            self.body_iterator = parts
            group.start_soon(self._produce, channel)
            with parts:
                await self.stream_response(send)

    async def _produce(self, channel: Any) -> None:
        try:
            async with channel:
                await channel.send(b"a part")
                raise RuntimeError("in the middle")
        finally:
            for _ in range(10):
                await asyncio.sleep(0)


def test_a_stream_is_cut_by_an_error_after_its_end(shop: Shop) -> None:
    shop.sell(lambda: Produced(()))
    assert shop.buy().status_code == 500
    assert shop.outcomes == ["failed"]


def test_events_are_sold(shop: Shop) -> None:
    async def events() -> AsyncGenerator[str]:
        yield "one"
        yield "two"

    shop.sell(events, response_class=EventSourceResponse)
    assert shop.buy().text == 'data: "one"\n\ndata: "two"\n\n'
    assert shop.outcomes == ["succeeded"]


# Routers, sub-applications, where they are mounted


def test_routers_in_routers_and_offers_where_they_are_included(shop: Shop) -> None:
    inner, outer = APIRouter(), APIRouter()
    inner.add_api_route("/report", lambda: CONTENT)
    outer.include_router(inner, prefix="/inner", dependencies=[Depends(SOLD)])
    outer.include_router(inner, prefix="/open")
    shop.app.include_router(outer, prefix="/outer")
    with calling(shop.app) as http:
        assert buy(http, "/outer/inner/report").json() == CONTENT
        assert http.get("/outer/open/report").json() == CONTENT


@pytest.mark.parametrize("own", [True, False])
def test_a_sub_application_is_paid_once_behind_one_paywall_or_two(shop: Shop, own: bool) -> None:
    inner = Shop(shop.emulator).app if own else FastAPI()
    inner.add_api_route("/report", content, dependencies=[Depends(SOLD)])
    middle = FastAPI()
    middle.mount("/inner", inner)
    shop.app.mount("/middle", middle)
    with calling(shop.app) as http:
        assert buy(http, "/middle/inner/report").json() == CONTENT
        assert http.get("/middle/inner/report").status_code == 402
    assert shop.outcomes == ["succeeded"]


def test_a_sub_application_with_the_only_paywall(shop: Shop) -> None:
    shop.sell(content, path="/report")
    app = FastAPI()
    app.mount("/inner", shop.app)
    app.add_api_route("/report", content, dependencies=[Depends(SOLD)])
    with calling(app) as http:
        assert buy(http, "/inner/report").json() == CONTENT
        assert http.get("/report").status_code == 500  # no paywall in front: never free


@pytest.mark.parametrize(("path", "root"), [("/api/report", "/api"), ("/report", "")])
def test_a_root_path_of_the_server_and_of_the_app(path: str, root: str) -> None:
    """Behind a proxy that strips: the server puts the root path back, as uvicorn --root-path does."""
    shop = Shop(public_url="https://seller.example")
    shop.sell(content, path="/report")
    with serving(shop.app, lifespan="off", root_path=root) as url:
        unpaid = httpx.get(f"{url}/report")
        assert unpaid.status_code == 402
        assert resource_of(unpaid.headers["payment-required"]) == f"https://seller.example{path}"
        proof = {"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["payment-required"])}
        assert httpx.get(f"{url}/report", headers=proof).json() == CONTENT


def resource_of(instructions: str) -> str:
    return str(decode_header(instructions)["resource"]["url"])


def test_head_on_a_starlette_get_is_paid_and_a_redirect_for_a_slash_is_free() -> None:
    with calling(shop_of(Route("/report", report)), follow_redirects=False) as http:
        assert http.head("/report").status_code == 402
        answer = buy(http, "/report", "HEAD")
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-length"] == str(len(CONTENT))
        redirect = http.get("/report/")
    assert (redirect.status_code, redirect.headers["location"].endswith("/report")) == (307, True)
    assert "payment-required" not in redirect.headers
    assert redirect.headers["cache-control"] == "private, no-store"  # made anew


# Odd scopes


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"raw_path": None, "extensions": None},
        {"raw_path": b"", "query_string": b""},
        {"raw_path": None, "server": None, "extensions": {}},  # as Mangum makes them
    ],
    ids=["absent", "none", "empty", "lambda"],
)
def test_a_scope_without_raw_path_or_extensions(scope: dict[str, Any]) -> None:
    app = shop_of(Route("/r\u00e9port", report), public_url="https://a.example")
    sent = ask(app, "/r\u00e9port", proof_for(app, "/r\u00e9port", **scope), **scope)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert (sent[0]["status"], sent[1]["body"]) == (200, CONTENT.encode())


def test_headers_that_stand_twice_are_kept_twice() -> None:
    @faregate.starlette.paid("daily_report")
    async def twice(request: Request) -> Response:
        response = PlainTextResponse(CONTENT)
        for name, value in (("a", "1"), ("b", "2")):
            response.set_cookie(name, value)
            response.headers.append("link", f"<{value}>")
        return response

    with calling(shop_of(Route("/", twice))) as http:
        answer = buy(http, "/")
    assert len(answer.headers.get_list("set-cookie")) == 2
    assert answer.headers.get_list("link") == ["<1>", "<2>"]


EXTENSIONS = {
    "http.response.pathsend": {"type": "http.response.pathsend", "path": "/etc/hostname"},
    "http.response.zerocopysend": {"type": "http.response.zerocopysend", "file": 0},
    "http.response.trailers": {"type": "http.response.trailers", "headers": []},
    "http.response.early_hint": {"type": "http.response.early_hint", "links": [b"</paid.css>"]},
    "http.response.push": {"type": "http.response.push", "path": "/paid", "headers": []},
}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_is_forwarded_only_when_nothing_paid_is_at_stake(name: str) -> None:
    """On a free path it passes; on a paid one it reaches nobody, offered or not."""

    async def past(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
        await send(EXTENSIONS[name])
        with contextlib.suppress(Exception):
            await send({"type": "http.response.body", "body": b""})

    app = ASGIMiddleware(past, a_paywall(), offers={"/sold": "daily_report"}, refuse=["/closed"])
    assert EXTENSIONS[name] in ask(app, "/free", extensions={name: {}})
    for path in ("/sold", "/closed"):
        sent: list[Any] = []
        scope = http_scope(path, extensions={name: {}})
        asyncio.run(app(scope, never, collect(sent)))
        if path == "/sold":
            proof = (b"payment-signature", Wallet().pay(header(sent, b"payment-required")).encode())
            with contextlib.suppress(Exception):
                asyncio.run(app({**scope, "headers": [*scope["headers"], proof]}, never, collect(sent)))
        assert EXTENSIONS[name] not in sent
        assert 200 not in [message.get("status") for message in sent]


@pytest.mark.parametrize("denial", [True, False])
def test_a_paid_websocket_is_denied_before_it_is_accepted(shop: Shop, denial: bool) -> None:
    @shop.app.websocket("/ws", dependencies=[Depends(SOLD)])
    async def endpoint(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(CONTENT)

    extensions: dict[str, Any] = {"websocket.http.response": {}} if denial else {}
    scope = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b"", "extensions": extensions}
    sent: list[Any] = []
    asyncio.run(shop.app({**scope, "scheme": "ws"}, connecting, collect(sent)))
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert CONTENT not in str(sent)


@pytest.mark.parametrize("place", ["dependency", "middleware"])
def test_a_payer_who_returns_is_known_although_each_request_changes_the_session(place: str) -> None:
    """With the new cookie of the 202 the payer was another client, and never got what was paid for."""

    async def count(request: Request) -> None:
        request.session["visits"] = request.session.get("visits", 0) + 1
        request.session.setdefault("id", "a secret of a session")

    async def count_and_pass(request: Request, call_next: Any) -> Any:
        await count(request)
        return await call_next(request)

    before = [Depends(count)] if place == "dependency" else []
    app = FastAPI(openapi_url=None)
    app.get("/sold", dependencies=[*before, Depends(paid("slow_settlement"))])(lambda: CONTENT)
    if place == "middleware":
        app.middleware("http")(count_and_pass)
    app.add_middleware(PaywallMiddleware, paywall=a_paywall())
    app.add_middleware(SessionMiddleware, secret_key="a secret of sixteen or more")
    with TestClient(app, "http://seller.example") as client:
        proof = Wallet().pay(client.get("/sold").headers["payment-required"])
        answers = [client.get("/sold", headers={"PAYMENT-SIGNATURE": proof}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202, 202, 200]
    assert ["set-cookie" in answer.headers for answer in answers] == [False, False, True]


def test_a_payer_who_returns_is_known_although_another_page_changed_the_session() -> None:
    """A cart in a signed cookie made its payer another client while the payment settled."""

    async def add_to_cart(request: Request) -> None:
        request.session["cart"] = [*request.session.get("cart", ()), "an article"]

    app = FastAPI(openapi_url=None)
    app.get("/sold", dependencies=[Depends(paid("slow_settlement"))])(lambda: CONTENT)
    app.get("/cart", dependencies=[Depends(add_to_cart)])(lambda: "added")
    app.add_middleware(PaywallMiddleware, paywall=a_paywall())
    app.add_middleware(SessionMiddleware, secret_key="a secret of sixteen or more")
    statuses: list[int] = []
    with TestClient(app, "http://seller.example") as client:
        client.get("/cart")
        proof = Wallet().pay(client.get("/sold").headers["payment-required"])
        for _ in range(3):
            statuses.append(client.get("/sold", headers={"PAYMENT-SIGNATURE": proof}).status_code)
            client.get("/cart")
        client.cookies.clear()
        stranger = client.get("/sold", headers={"PAYMENT-SIGNATURE": proof})
    assert statuses == [202, 202, 200]
    assert (stranger.status_code, CONTENT in stranger.text) == (409, False)


def test_a_paid_websocket_is_denied_before_a_dependency_can_accept_it(shop: Shop) -> None:
    async def accept(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(CONTENT)

    @shop.app.websocket("/ws", dependencies=[Depends(accept), Depends(SOLD)])
    async def endpoint(websocket: WebSocket) -> None: ...

    scope = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b""}
    sent: list[Any] = []
    asyncio.run(shop.app(scope, connecting, collect(sent)))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_a_free_websocket_may_deny_with_a_response_of_its_own(shop: Shop) -> None:
    @shop.app.websocket("/ws")
    async def endpoint(websocket: WebSocket) -> None:
        await websocket.send_denial_response(PlainTextResponse("no", 403))

    sent: list[Any] = []
    scope = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b"", "scheme": "ws"}
    asyncio.run(shop.app({**scope, "extensions": {"websocket.http.response": {}}}, connecting, collect(sent)))
    assert sent[0]["type"] == "websocket.http.response.start"


def test_the_middleware_may_stand_around_a_mount_only() -> None:
    routes = [Route("/report", report)]
    guarded = Mount("/paid", routes=routes, middleware=[Middleware(PaywallMiddleware, a_paywall())])
    with calling(Starlette(routes=[guarded, *routes])) as http:
        assert buy(http, "/paid/report").text == CONTENT
        assert http.get("/report").status_code == 500


def test_a_payment_that_nothing_sells_says_how_to_get_one() -> None:
    async def unsold(payment: Payment) -> str:
        raise AssertionError(payment)

    with pytest.raises(ConfigurationError, match=r"payment: Annotated\[Payment, Depends\(paid\("):
        FastAPI().get("/unsold")(unsold)


def test_a_decorator_is_refused_with_what_was_written() -> None:
    anything: Any = paid("daily_report")
    with pytest.raises(
        ConfigurationError,
        match=r"^paid\('daily_report'\) is a dependency, .*Depends\(paid\('daily_report'\)\)",
    ):
        anything(calling)
    anything = paid(calling, among=("daily_report", "text_summary"))
    with pytest.raises(ConfigurationError, match=r"^paid\(choose, among=...\) is a dependency"):
        anything(calling)


def test_a_function_with_a_free_route_beside_the_sold_one_is_logged_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever stacks two decorators may think that one price is for both."""
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, base_url="emulator:")

    @app.get("/v2")
    @app.get("/v1", dependencies=[Depends(paid("daily_report"))])
    async def sold_once() -> str:
        return CONTENT

    @app.get("/new")
    @app.get("/old")
    async def sold_always(payment: Annotated[Payment, Depends(paid("daily_report"))]) -> str:
        return CONTENT

    with caplog.at_level(logging.WARNING, "faregate"), TestClient(app) as client:
        assert [client.get(path).status_code for path in ("/v1", "/old", "/new")] == [402, 402, 402]
    [said] = [record.getMessage() for record in caplog.records if "free at" in record.getMessage()]
    assert "sold_once is sold at /v1 and free at /v2" in said


def test_functions_of_one_name_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, base_url="emulator:")
    sold = [Depends(paid("daily_report"))]

    def make() -> Any:
        async def report() -> str:
            return CONTENT

        return report

    class Shop:
        async def report(self) -> str:
            return CONTENT

    shop, other = Shop(), Shop()
    for path, sells, gives in (
        ("lambda", lambda: CONTENT, lambda: CONTENT),
        ("local", make(), make()),
        ("method", shop.report, other.report),
    ):
        app.add_api_route(f"/sold/{path}", sells, dependencies=sold)
        app.add_api_route(f"/free/{path}", gives)
    app.add_api_route("/free/same", shop.report)

    with caplog.at_level(logging.WARNING, "faregate"), TestClient(app):
        pass
    [said] = [record.getMessage() for record in caplog.records if "free at" in record.getMessage()]
    assert "is sold at /sold/method and free at /free/same" in said


def test_a_prefix_that_sells_some_paths_of_a_route_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, base_url="emulator:", offers={"/files/sold": "daily_report"})

    @app.get("/files/{name:path}")
    async def files(name: str) -> str:
        return name

    with caplog.at_level(logging.WARNING, "faregate"), TestClient(app):
        pass
    assert not [record for record in caplog.records if "free at" in record.getMessage()]
