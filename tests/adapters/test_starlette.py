"""What is Starlette's and FastAPI's own: how offers sit on handlers, and what else may stand around."""

import asyncio
import http.client
import threading
import time
from typing import Any

import anyio
import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, WebSocket
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.testclient import TestClient

import faregate.fastapi
from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.emulator import Emulator
from faregate.errors import ConfigurationError
from faregate.offers import offer
from faregate.starlette import PaywallMiddleware, forbid_storing, paid
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
from tests.adapters.conftest import Seller
from tests.adapters.sellers import answering, streaming, with_background
from tests.audit.purchases import outcomes
from tests.servers.http import serving_on_trio
from tests.support.headers import decode_header
from tests.support.waiting import eventually

# Nothing leaves early


def test_background_tasks_run_after_the_payment_is_proven(seller: Seller) -> None:
    seller.work.behave = answering(with_background(seller.work, lambda: seller.service.count("complete")))
    response = seller.get("/paid", seller.proof_for("/paid"))
    assert CONTENT in response.text
    assert seller.work.background == []
    assert eventually(lambda: seller.work.background == ["completions: 1"])


def test_background_tasks_of_work_that_is_not_released_do_not_run(seller: Seller) -> None:
    seller.work.behave = answering(with_background(seller.work, lambda: seller.service.count("complete")))
    assert seller.get("/late", seller.proof_for("/late")).status_code == 202
    time.sleep(0.4)
    assert seller.work.background == []


@pytest.mark.parametrize("version", ["0.52.1", "1.0.1", "1.6.0"])
def test_a_starlette_that_runs_background_tasks_of_what_was_not_sold_is_refused(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("starlette.__version__", version)
    message = f"needs Starlette 1.7 or later, and {version} is installed"
    with pytest.raises(ConfigurationError, match=message):
        ASGIMiddleware(Starlette(), a_paywall())
    fastapi_app = FastAPI()
    fastapi_app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall())
    for app in (shop_of(Route("/", report)), fastapi_app):
        with pytest.raises(ConfigurationError, match=message), TestClient(app):
            pass


@pytest.mark.parametrize("version", ["1.7.0", "1.10.0", "2.0.0rc1"])
def test_a_later_starlette_starts(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("starlette.__version__", version)
    with TestClient(shop_of(Route("/", report))):
        pass


def test_a_body_in_a_buffer_that_is_used_again_is_sold_as_it_was_sent() -> None:
    async def reusing(scope: Any, receive: Any, send: Any) -> None:
        buffer = bytearray(4)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for letter in b"ABC":
            buffer[:] = bytes([letter]) * 4
            await send({"type": "http.response.body", "body": memoryview(buffer), "more_body": True})
        await send({"type": "http.response.body"})

    with calling(ASGIMiddleware(reusing, a_paywall(), offers={"/": "daily_report"})) as http:
        assert buy(http, "/").text == "AAAABBBBCCCC"


def test_a_204_has_no_body(seller: Seller) -> None:
    seller.work.behave = answering(lambda: Response(b"body", 204))
    response = seller.get("/paid", seller.proof_for("/paid"))
    assert (response.status_code, response.content) == (204, b"")
    assert "payment-response" in response.headers


def test_a_stream_leaves_whole_and_only_when_paid(seller: Seller) -> None:
    chunks = [b"%d " % number for number in range(500)]
    seller.work.behave = answering(streaming(*chunks))
    response = seller.get("/paid", seller.proof_for("/paid"))
    assert response.content == b"".join(chunks)
    assert response.headers["content-length"] == str(len(response.content))
    assert seller.get("/late", seller.proof_for("/late")).status_code == 202


def test_a_file_is_held_like_everything_else(tmp_path: Any) -> None:
    (tmp_path / "report").write_text(CONTENT * 10_000)

    async def file(request: Request) -> Response:
        return FileResponse(tmp_path / "report")

    routes = [Route("/late", paid("slow_settlement")(file)), Route("/now", paid("daily_report")(file))]
    with calling(shop_of(*routes)) as http:
        assert buy(http, "/late").status_code == 202
        assert buy(http, "/now").text == CONTENT * 10_000


@pytest.mark.parametrize("chunks", [(), (b"first",), (b"first", b"second")])
def test_a_stream_that_breaks_off_fails(seller: Seller, chunks: tuple[bytes, ...]) -> None:
    seller.work.behave = answering(streaming(*chunks, error=RuntimeError("broke off")))
    response = seller.get("/paid", seller.proof_for("/paid"))
    assert response.status_code == 500
    assert "first" not in response.text
    assert list(seller.statuses().values()) == ["failed"]


class StartsWithEachPart:
    """As the `SlowAPIASGIMiddleware` of slowapi: sends the start when it sees a part of the body."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        first: Any = None

        async def send_both(message: Any) -> None:
            nonlocal first
            if message["type"] == "http.response.start":
                first = message
                return
            await send(first)
            await send(message)

        await self.app(scope, receive, send_both)


def test_a_stream_that_is_started_again_with_each_part_is_not_charged() -> None:
    @paid("daily_report")
    async def stream(request: Request) -> Response:
        return streaming(b"first", b"second")()

    emulator = Emulator()
    routes = [Route("/stream", stream), Route("/whole", report)]
    with calling(shop_of(*routes, inside=[StartsWithEachPart], emulator=emulator)) as http:
        refused = buy(http, "/stream")
        assert (refused.status_code, refused.json()["code"]) == (500, "result_cut_short")
        assert outcomes(emulator) == ["failed"]
        assert buy(http, "/whole").text == CONTENT


def test_a_sync_handler_runs_in_a_thread(seller: Seller) -> None:
    response = seller.get("/threaded", seller.proof_for("/threaded"))
    assert response.json() == {"result": "from a thread"}
    assert "payment-response" in response.headers
    assert seller.work.seen
    assert threading.get_ident() not in seller.work.seen


def test_an_unknown_offer_is_logged_with_the_known_ones(
    seller: Seller, caplog: pytest.LogCaptureFixture
) -> None:
    assert seller.get("/unknown").status_code == 502
    assert "no_such_thing" in caplog.text
    assert "daily_report" in caplog.text


def test_a_seller_that_forgot_a_settling_payment_relays_how_it_stands(seller: Seller) -> None:
    """Another process, or a restart with the memory journal: access says 202 until the payment is final."""
    proof = seller.proof_for("/late")
    assert seller.get("/late", proof).status_code == 202
    (transaction_id,) = seller.statuses()
    seller.paywall.journal.__init__()  # type: ignore[misc]  # an empty journal
    for _ in range(2):
        response = seller.get("/late", proof)
        assert (response.status_code, response.json()["transaction_id"]) == (202, transaction_id)
    assert (seller.work.runs, seller.service.count("transaction")) == (1, 1)
    response = seller.get("/late", proof)
    assert (response.status_code, response.json()["code"]) == (409, "proof_already_used")
    assert response.json()["transaction_id"] == transaction_id
    assert seller.work.runs == 1


# The offer sits on the handler


def test_every_way_to_write_a_path_that_reaches_the_handler_reaches_the_gate(seller: Seller) -> None:
    host, port = seller.url.removeprefix("http://").split(":")
    tricks = "//paid /./paid /%70aid /paid/ /paid%2F /paid%0a /PAID /paid;x /x/../paid /paid? /paid#f"
    more = "http://evil.example/paid /paid%00 \\paid /paid%20 /%2Fpaid"
    for target in (*tricks.split(), *more.split()):
        for method in ("GET", "HEAD", "POST", "OPTIONS", "get", "TRACE", "PUT"):
            line = http.client.HTTPConnection(host, int(port), timeout=10)
            line.putrequest(method, target, skip_host=True)
            line.putheader("Host", "evil.example/open?")
            line.putheader("X-Original-URL", "/open")
            line.endheaders()
            answer = line.getresponse()
            assert CONTENT.encode() not in answer.read(), (method, target)
            assert answer.getheader("x-own") is None
            line.close()
    assert seller.work.runs == 0
    assert CONTENT in seller.get("/paid", seller.proof_for("/paid")).text  # there was something to be had


def test_head_of_a_paid_get_is_paid(seller: Seller) -> None:
    assert seller.get("/paid", method="HEAD").status_code in (402, 405)
    assert seller.work.runs == 0
    if seller.get("/paid", method="HEAD").status_code == 402:
        response = seller.get("/paid", seller.proof_for("/paid", "HEAD"), method="HEAD")
        assert (response.status_code, response.content) == (200, b"")
        assert "payment-response" in response.headers


def test_options_passes_without_work(seller: Seller) -> None:
    response = seller.get("/paid", method="OPTIONS")
    assert (response.status_code, response.content, seller.work.runs) == (204, b"", 0)


def test_an_unprotected_route_is_left_alone(seller: Seller) -> None:
    response = seller.get("/open", "bm90IGxvb2tlZCBhdA==")
    assert response.json() == {"open": True}
    assert "cache-control" not in response.headers
    assert seller.service.asked == []


def test_a_decorator_above_sees_no_header_that_lets_a_cache_store() -> None:
    own = {"Netlify-CDN-Cache-Control": "public", "X-VC-TTL": "60", "Expires": "0", "x-own": "1"}
    seen = forbid_storing(Response(headers=own), offer("daily_report")).headers
    assert dict(seen) == {
        "x-own": "1",
        "content-length": "0",
        "cache-control": "private, no-store",
        "faregate-result": "unreleased",
    }


def test_methods_of_an_endpoint_class() -> None:
    class Endpoint(HTTPEndpoint):
        @paid("daily_report")
        async def get(self, request: Request) -> Response:
            return PlainTextResponse(f"{CONTENT} {request.state.payment.transaction_id[:4]}")

        async def post(self, request: Request) -> Response:
            return PlainTextResponse("free to post")

    with calling(shop_of(Route("/", Endpoint))) as http:
        assert buy(http, "/").text == f"{CONTENT} txn_"
        assert http.post("/").text == "free to post"


def test_paid_on_a_class_or_a_function_without_request_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="methods of an endpoint class"):
        paid("daily_report")(HTTPEndpoint)

    with pytest.raises(ConfigurationError, match="is given the request"):

        @paid("daily_report")
        async def lost() -> Response:
            return PlainTextResponse(CONTENT)

    @paid("daily_report")
    async def misled(*_requests: Any) -> Response:
        return PlainTextResponse(CONTENT)

    with pytest.raises(ConfigurationError, match="is given the request"):
        asyncio.run(misled("no request"))


def test_without_the_middleware_a_paid_handler_is_a_clear_error() -> None:
    fast = FastAPI()
    fast.add_api_route("/", lambda: CONTENT, dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    for app in (Starlette(routes=[Route("/", report)]), fast):
        sent: list[Any] = []
        with pytest.raises(ConfigurationError, match="add_middleware"):
            asyncio.run(app(http_scope("/"), never, collect(sent)))
        assert CONTENT not in str(sent)


def test_a_mistake_in_the_settings_fails_the_start_and_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAREGATE_BASE_URL", raising=False)
    app = Starlette(routes=[Route("/", report)], middleware=[Middleware(PaywallMiddleware)])
    sent: list[Any] = []
    with pytest.raises(ConfigurationError, match="Set FAREGATE_BASE_URL"):
        asyncio.run(app({"type": "lifespan", "asgi": {"version": "3.0"}}, connecting, collect(sent)))
    assert sent[0]["type"] == "lifespan.startup.failed"
    assert "Set FAREGATE_BASE_URL" in sent[0]["message"]
    with pytest.raises(ConfigurationError, match="Set FAREGATE_BASE_URL"):
        ask(app, "/")


def test_router_and_app_wide_dependencies_sell_groups() -> None:
    router = APIRouter(dependencies=[Depends(faregate.fastapi.paid("daily_report"))])

    @router.get("/one")
    async def one() -> str:
        return CONTENT

    app = FastAPI()
    app.include_router(router, prefix="/group")
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall())
    with calling(app) as http:
        assert buy(http, "/group/one").json() == CONTENT


def test_the_same_offer_twice_is_one_payment() -> None:
    emulator = Emulator()
    app = FastAPI(dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall(emulator))
    app.add_api_route("/same", lambda: CONTENT, dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    with calling(app) as http:
        assert buy(http, "/same").json() == CONTENT
    assert len([call for call in emulator.calls() if call.path.endswith("/complete")]) == 1


def make_page() -> Any:
    """A function of its own for each route: one that is sold is never routed without its price."""

    async def show(_request: Request) -> Response:
        return PlainTextResponse(CONTENT)

    return show


def test_two_offers_of_an_application_and_a_route_fail_the_start() -> None:
    app = FastAPI(dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall())
    app.add_api_route("/two", lambda: CONTENT, dependencies=[Depends(faregate.fastapi.paid("text_summary"))])
    with (
        pytest.raises(ConfigurationError, match="'daily_report' and 'text_summary': no payer"),
        TestClient(app),
    ):
        pass


@pytest.mark.parametrize("place", ["/sold", "/sold/two", "/sold/{name}"])
def test_two_offers_of_a_prefix_and_a_route_fail_the_start(place: str) -> None:
    layer = Middleware(PaywallMiddleware, paywall=a_paywall(), offers={"/sold": "daily_report"})
    app = Starlette(routes=[Route(place, paid("text_summary")(make_page()))], middleware=[layer])
    with pytest.raises(ConfigurationError, match="its path is sold as 'daily_report'"), TestClient(app):
        pass


def test_a_route_that_reaches_below_a_prefix_of_another_offer_is_sold_elsewhere() -> None:
    """Below the prefix another route answers: the start does not fail."""
    layer = Middleware(PaywallMiddleware, paywall=a_paywall(), offers={"/sold": "daily_report"})
    routes = [Route("/sold", make_page()), Route("/{name}", paid("text_summary")(make_page()))]
    with calling(Starlette(routes=routes, middleware=[layer])) as http:
        assert buy(http, "/sold").text == CONTENT
        assert buy(http, "/other").text == CONTENT


def test_a_websocket_on_a_paid_handler_is_refused() -> None:
    @paid("daily_report")
    async def socket_endpoint(websocket: Any) -> None:
        await websocket.accept()
        await websocket.send_text(CONTENT)

    fast = FastAPI()
    fast.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall())

    @fast.websocket("/ws", dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    async def fast_socket(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(CONTENT)

    plain = Starlette(routes=[WebSocketRoute("/ws", socket_endpoint)])
    prefixed = ASGIMiddleware(plain, a_paywall(), offers={"/ws": "daily_report"})
    for app in (shop_of(WebSocketRoute("/ws", socket_endpoint)), fast, prefixed):
        sent: list[Any] = []
        scope = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b"", "scheme": "ws"}
        asyncio.run(app(scope, connecting, collect(sent)))
        assert [message["type"] for message in sent] == ["websocket.close"]


# What stands around


class Nosy(BaseHTTPMiddleware):
    """Reads what it can and swallows every error."""

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        try:
            response: Response = await call_next(request)
        except Exception:
            return JSONResponse({"swallowed": True}, 200)
        response.headers["x-nosy"] = "1"
        return response


def test_other_middleware_inside_and_outside() -> None:
    for order in (0, 1):
        layers = [Middleware(PaywallMiddleware, paywall=a_paywall()), Middleware(Nosy)]
        app = Starlette(routes=[Route("/", report)], middleware=layers if order else layers[::-1])
        with calling(app) as http:
            unpaid = http.get("/")
            assert unpaid.status_code == 402
            assert CONTENT not in unpaid.text
            response = buy(http, "/")
            assert (response.text, response.headers["x-nosy"]) == (CONTENT, "1")


def test_exception_handlers_cannot_turn_a_refusal_into_a_result() -> None:
    async def generous(request: Request, error: Exception) -> Response:
        return PlainTextResponse(CONTENT)

    app = FastAPI(exception_handlers={402: generous, Exception: generous, 500: generous})
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=a_paywall())
    app.add_api_route("/", lambda: CONTENT, dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    with calling(app) as http:
        unpaid = http.get("/")
    assert unpaid.status_code == 402
    assert CONTENT not in unpaid.text


@pytest.mark.parametrize("status", [200, 404])
def test_what_an_application_makes_of_a_stop_is_no_error_of_its_own(status: int) -> None:
    """Litestar raises an error of its own, from ours, when a response was begun. The payer is answered."""

    @paid("failing_settlement")
    async def late(request: Request) -> Response:
        return PlainTextResponse(CONTENT, status)

    class Telling:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            try:
                await self.app(scope, receive, send)
            except Exception as error:
                raise LookupError("caught after the response had begun") from error

    app = shop_of(Route("/", late), inside=[Telling])
    sent = ask(app, "/", proof_for(app))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == (202 if status == 200 else 404)


def test_whoever_catches_a_mistake_of_the_paywall_does_not_release() -> None:
    sent = ask(shop_of(Route("/", report), inside=[Generous]), "/", server=("/run/app.sock", None))
    assert sent[0]["status"] == 502
    assert CONTENT not in str(sent)


class Generous(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: Any) -> Response:
        try:
            response: Response = await call_next(request)
        except Exception:
            return PlainTextResponse(CONTENT)
        return response


def test_mounts_and_root_paths() -> None:
    inner = Mount("/inner", routes=[Route("/report", report)])
    app = shop_of(Mount("/outer", routes=[inner]), public_url="https://pay.example/api")
    assert ask(app, "/outer/inner/report")[0]["status"] == 402
    assert ask(app, "/api/outer/inner/report", root_path="/api")[0]["status"] == 402


# The address payers use


def resource_url(app: Any, **scope: Any) -> str:
    instructions = header(ask(app, "/r\u00e9port", **scope), b"payment-required")
    return str(decode_header(instructions)["resource"]["url"])


def test_the_resource_url_never_comes_from_the_host_header_unless_trusted() -> None:
    route = Route("/r\u00e9port", report)
    host = {"headers": [(b"host", b"evil.example")], "query_string": b"q=1"}
    assert resource_url(shop_of(route), **host) == "http://127.0.0.1/r%C3%A9port"
    assert (
        resource_url(shop_of(route, public_url="https://a.example/"), **host)
        == "https://a.example/r%C3%A9port"
    )
    trusting = shop_of(route, trust_host=True)
    assert resource_url(trusting, **host) == "http://evil.example/r%C3%A9port"
    odd = {"headers": [(b"host", b"evil.example/x?y")]}
    assert resource_url(trusting, **odd) == "http://127.0.0.1/r%C3%A9port"
    assert resource_url(shop_of(route), server=("::1", 8000)) == "http://[::1]:8000/r%C3%A9port"


def test_a_server_without_an_address_says_what_to_set(caplog: pytest.LogCaptureFixture) -> None:
    app = shop_of(Route("/", report))
    for _ in range(2):
        assert ask(app, "/", server=("/run/app.sock", None))[0]["status"] == 502
    [line] = [one for one in caplog.messages if "FAREGATE_PUBLIC_URL" in one]
    assert line.startswith("nothing can be sold:")


def test_a_path_too_long_for_the_service_is_414() -> None:
    app = shop_of(Route("/{rest:path}", report), public_url="https://a.example")
    with calling(app) as http:
        assert http.get("/" + "a" * (2048 - 18)).status_code == 402
        assert http.get("/" + "a" * (2049 - 18)).status_code == 414


def test_odd_proofs_over_http(seller: Seller) -> None:
    def status(*headers: tuple[str, str]) -> int:
        return seller.http.get("/paid", headers=list(headers)).status_code

    proof = ("PAYMENT-SIGNATURE", "YQ==")
    assert status(("PAYMENT-SIGNATURE", "x" * 16_385)) == 431
    assert status(proof, proof) == 400
    assert status(proof, ("X-PAYMENT", "YQ==")) == 400
    assert status(("PAYMENT_SIGNATURE", "YQ==")) == 400
    assert status(("PAYMENT-SIGNATURE", "")) == 400
    assert status(("X-PAYMENT", "YQ==")) == 402
    assert seller.service.count("access") == 1
    assert seller.work.runs == 0


# trio


def test_the_same_story_on_trio() -> None:
    emulator = Emulator()

    @paid("slow_settlement")
    async def late(request: Request) -> Response:
        return PlainTextResponse(CONTENT)

    @paid("daily_report", max_work_seconds=0.2)
    async def hurried(request: Request) -> Response:
        await anyio.sleep(5)
        return PlainTextResponse(CONTENT)

    routes = [Route("/report", report), Route("/late", late), Route("/hurried", hurried)]
    app = shop_of(*routes, emulator=emulator, public_url="https://seller.example")
    with serving_on_trio(app) as url, httpx.Client(base_url=url, trust_env=False) as http:
        paid_for = buy(http, "/report")
        assert (paid_for.text, "payment-response" in paid_for.headers) == (CONTENT, True)
        assert buy(http, "/late").status_code == 202
        assert buy(http, "/hurried").json()["code"] == "work_timed_out"
