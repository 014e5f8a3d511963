"""A payer who leaves, a server that cancels and time limits: none of them ends a sale."""

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from faregate import Paywall, asgi
from faregate.asgi import require_payment
from faregate.checkout.shielding import wait_shielded
from faregate.emulator import Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.offers import offer
from faregate.starlette import PaywallMiddleware, paid
from tests.adapters.asgi import (
    CONTENT,
    Plain,
    a_paywall,
    ask,
    buy,
    calling,
    collect,
    header,
    http_scope,
    never,
    proof_for,
    report,
    shop_of,
)
from tests.adapters.conftest import Seller
from tests.adapters.sellers import answering, sleeping, streaming
from tests.servers.http import serving, serving_on_trio
from tests.support.waiting import eventually


@contextmanager
def leaving(url: str, path: str, proof: str) -> Iterator[None]:
    """Ask, and hang up at the end of the block."""
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nPAYMENT-SIGNATURE: {proof}\r\n\r\n".encode())
        yield
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


def leave(seller: Seller, path: str, proof: str, after: float) -> None:
    """Ask, and hang up while the work runs."""
    with leaving(seller.url, path, proof):
        time.sleep(after)


def test_a_payer_who_leaves_pays_and_may_fetch_the_result(seller: Seller) -> None:
    seller.work.behave = sleeping(0.4)
    proof = seller.proof_for("/paid")
    leave(seller, "/paid", proof, 0.2)
    assert eventually(lambda: list(seller.statuses().values()) == ["succeeded"])
    calls = seller.service.count("complete")
    assert CONTENT in seller.get("/paid", proof).text
    assert (seller.work.runs, seller.service.count("complete")) == (1, calls)


@pytest.mark.parametrize("delay", [0.0, 0.4])
def test_a_payer_who_left_and_signs_another_payment_pays_once(seller: Seller, delay: float) -> None:
    """Nobody got the result, so it waits: as it does when a sweep completes the payment."""
    seller.work.behave = sleeping(0.4)
    seller.service.delay = delay
    leave(seller, "/paid", seller.proof_for("/paid"), 0.2 + delay)
    assert eventually(lambda: list(seller.statuses().values()) == ["succeeded"])
    again = seller.get("/paid", seller.proof_for("/paid"))
    assert (again.status_code, CONTENT in again.text) == (200, True)
    assert sorted(seller.statuses().values()) == ["failed", "succeeded"]
    assert seller.work.runs == 1


def test_a_payer_who_left_is_known_behind_middleware_that_asks_for_its_messages() -> None:
    async def pass_on(request: Request, call_next: Any) -> Response:
        response: Response = await call_next(request)
        return response

    is_working, has_left = threading.Event(), threading.Event()

    @paid("daily_report")
    async def slow(request: Request) -> Response:
        is_working.set()
        await anyio.to_thread.run_sync(has_left.wait, 20)
        return PlainTextResponse(CONTENT)

    emulator, wallet = Emulator(), Wallet()
    around = [
        Middleware(BaseHTTPMiddleware, dispatch=pass_on),
        Middleware(PaywallMiddleware, paywall=a_paywall(emulator)),
    ]
    with calling(Starlette(routes=[Route("/", slow)], middleware=around)) as http:
        proofs = [wallet.pay(http.get("/").headers["payment-required"]) for _ in range(2)]
        with leaving(str(http.base_url), "/", proofs[0]):
            assert is_working.wait(20)
        time.sleep(0.2)  # for the server to see that the connection is closed
        has_left.set()
        assert eventually(lambda: emulator.balance(wallet.address) < emulator.balance(Wallet().address))
        taken = emulator.balance(wallet.address)
        # 409 as long as the first payment's request is being served.
        assert eventually(lambda: http.get("/", headers={"PAYMENT-SIGNATURE": proofs[1]}).text == CONTENT)
    assert emulator.balance(wallet.address) == taken


def test_a_payer_who_left_is_known_behind_middleware_where_threads_fetch_the_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with Granian: a message takes longer than a few turns of the event loop."""
    monkeypatch.setitem(sys.modules, "granian", ModuleType("granian"))

    async def receive_through_middleware() -> Any:
        await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    emulator, wallet = Emulator(), Wallet()
    around = [Middleware(PaywallMiddleware, paywall=a_paywall(emulator))]
    shop = Starlette(routes=[Route("/", report)], middleware=around)
    lost, last = (wallet.pay(header(ask(shop, "/"), b"payment-required")) for _ in range(2))
    asyncio.run(shop(http_scope("/", lost), receive_through_middleware, collect([])))
    taken = emulator.balance(wallet.address)
    assert ask(shop, "/", last)[1]["body"] == CONTENT.encode()
    assert emulator.balance(wallet.address) == taken < emulator.balance(Wallet().address)


def test_a_payer_who_left_before_a_busy_server_looked_at_the_request_pays_once() -> None:
    """The sale itself takes a few milliseconds: the time is lost before it begins."""
    runs: list[str] = []

    @paid("daily_report")
    async def quick(request: Request) -> Response:
        runs.append(request.url.path)
        return PlainTextResponse(CONTENT)

    is_blocking = threading.Event()

    async def block(request: Request) -> Response:
        is_blocking.set()
        time.sleep(0.6)  # for longer than the payer waits
        return PlainTextResponse("")

    emulator, wallet = Emulator(), Wallet()
    around = [Middleware(PaywallMiddleware, paywall=a_paywall(emulator))]
    shop = Starlette(routes=[Route("/", quick), Route("/block", block)], middleware=around)
    with calling(shop) as http, ThreadPoolExecutor() as threads:
        *lost, last = [wallet.pay(http.get("/").headers["payment-required"]) for _ in range(3)]
        for proof in lost:  # the second one comes for the result of the first
            is_blocking.clear()
            blocking = threads.submit(http.get, "/block")
            assert is_blocking.wait(20)
            with pytest.raises(httpx.ReadTimeout):
                http.get("/", headers={"PAYMENT-SIGNATURE": proof}, timeout=0.2)
            blocking.result()
            assert eventually(lambda: emulator.balance(wallet.address) < emulator.balance(Wallet().address))
        taken = emulator.balance(wallet.address)
        assert http.get("/", headers={"PAYMENT-SIGNATURE": last}).text == CONTENT
    assert (emulator.balance(wallet.address), runs) == (taken, ["/"])


def test_a_payer_who_leaves_a_stream_pays_too(seller: Seller) -> None:
    async def watching(_payment: Any) -> Response:
        async def body() -> Any:
            for _ in range(8):
                await anyio.sleep(0.05)
                yield CONTENT.encode()

        return StreamingResponse(body())

    seller.work.behave = watching
    proof = seller.proof_for("/paid")
    leave(seller, "/paid", proof, 0.1)
    assert eventually(lambda: list(seller.statuses().values()) == ["succeeded"])
    assert seller.get("/paid", proof).text == CONTENT * 8
    assert seller.work.runs == 1


def test_a_payer_who_leaves_while_the_payment_is_taken_pays_too(seller: Seller) -> None:
    """Starlette cancels a stream when it hears that the payer left: the completion must not hear it."""
    seller.work.behave = answering(streaming(CONTENT.encode()))
    proof = seller.proof_for("/paid")
    seller.service.delay = 0.4
    leave(seller, "/paid", proof, 0.6)
    assert (seller.service.count("access"), seller.service.count("complete")) == (2, 1)
    seller.service.delay = 0.0
    assert eventually(lambda: list(seller.statuses().values()) == ["succeeded"])
    assert seller.get("/paid", proof).text == CONTENT
    assert (seller.work.runs, seller.service.count("complete")) == (1, 1)


@pytest.mark.parametrize("is_early", [True, False])
def test_a_payer_who_leaves_while_the_payment_is_authorized_may_fetch_the_result(is_early: bool) -> None:
    """Quart cancels its handler when it hears that the client left, also while it asks for the payment."""

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        async def listen() -> None:
            while (await receive())["type"] == "http.request":
                pass

        tasks = [asyncio.create_task(sell(scope, receive, send)), asyncio.create_task(listen())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def sell(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)
        await require_payment(scope, offer("daily_report"))
        await Plain()(scope, receive, send)

    async def leaving() -> Any:
        if not is_early:
            await asking.wait()
        return {"type": "http.disconnect"}

    class Slow(EmbeddedTransport):
        async def asend(self, method: str, url: str, *rest: Any) -> Any:
            asking.set()
            await anyio.sleep(0.2)
            return await super().asend(method, url, *rest)

    asking = asyncio.Event()
    paywall = Paywall(
        base_url="http://x", api_key="svc_test_emulator", environ={}, transport=Slow(Emulator())
    )
    app = asgi.PaywallMiddleware(listening, paywall)
    proof = proof_for(app, "/report")
    asking.clear()
    asyncio.run(app(http_scope("/report", proof), leaving, collect([])))
    assert ask(app, "/report", proof)[0]["status"] == 200


@pytest.mark.parametrize("proof", ["", "PAYMENT-SIGNATURE: anything\r\n"])
def test_what_is_free_hears_that_its_client_left(proof: str) -> None:
    """Also if that sent a payment: a handler that asks would never end otherwise."""
    said: list[str] = []

    async def poll(request: Request) -> Response:
        said.append("begun")
        while not (await request.is_disconnected() or "stop" in said):
            await anyio.sleep(0.01)
        said.append("left")
        return PlainTextResponse("nobody hears this")

    app = Starlette(
        routes=[Route("/poll", poll)], middleware=[Middleware(PaywallMiddleware, paywall=a_paywall())]
    )
    with serving(app) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as line:
            line.sendall(f"GET /poll HTTP/1.1\r\nHost: x\r\n{proof}\r\n".encode())
            assert eventually(lambda: "begun" in said)
        try:
            assert eventually(lambda: "left" in said)
        finally:
            said.append("stop")


@pytest.mark.parametrize("native", [True, False])
def test_an_application_that_gives_up_does_not_stop_the_completion(native: bool) -> None:
    """A time limit inside the app strikes while the payment is taken: the payer still gets the answer."""
    struck: list[bool] = []

    class Impatient:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async def hurry(message: Any) -> None:
                if native:
                    limit.reschedule(asyncio.get_running_loop().time() + 0.2)
                else:
                    scoped.deadline = anyio.current_time() + 0.2
                await send(message)

            try:
                async with asyncio.timeout(None) as limit:
                    with anyio.fail_after(None) as scoped:
                        await self.app(scope, receive, hurry)
            finally:
                struck.append(limit.expired() or scoped.cancel_called)

    with calling(shop_of(Route("/", report), inside=[Impatient], slow=True)) as http:
        response = buy(http, "/")
    assert (response.text, "payment-response" in response.headers) == (CONTENT, True)
    assert struck == [False, True]


def test_the_time_of_the_work_does_not_limit_its_completion() -> None:
    """What the handler still does once its result is sold is done, too."""
    done: list[str] = []

    @paid("daily_report", max_work_seconds=1.0)
    async def quick(request: Request) -> Response:
        return PlainTextResponse(CONTENT, background=BackgroundTask(done.append, "afterwards"))

    with calling(shop_of(Route("/", quick), slow=True)) as http:
        assert buy(http, "/").text == CONTENT
        assert eventually(lambda: done == ["afterwards"])


@pytest.mark.parametrize("serve", [serving, serving_on_trio])
def test_the_time_of_the_work_does_not_limit_the_report_of_its_failure(serve: Any) -> None:
    """Else its payer would hear that the payment is unsure, and the framework nothing of the error."""
    heard: list[Exception] = []

    @paid("daily_report", max_work_seconds=1.0)
    async def failing(request: Request) -> Response:
        raise LookupError("no content")

    async def answered(_request: Request, error: Exception) -> Response:
        heard.append(error)
        return PlainTextResponse("our own page", 500)

    layers = [Middleware(PaywallMiddleware, paywall=a_paywall(slow=True))]
    app = Starlette(routes=[Route("/", failing)], middleware=layers, exception_handlers={500: answered})
    with serve(app) as url, httpx.Client(base_url=url, trust_env=False) as http:
        response = buy(http, "/")
    assert (response.status_code, response.text) == (500, "our own page")
    assert [str(error) for error in heard] == ["no content"]


def test_free_streams_end_when_their_reader_leaves(seller: Seller) -> None:
    alive: list[int] = [0]

    async def forever(_payment: Any) -> Response:
        async def body() -> Any:
            alive[0] += 1
            try:
                while True:
                    yield b"."
                    await anyio.sleep(0.05)
            finally:
                alive[0] -= 1

        return StreamingResponse(body())

    seller.work.behave = forever
    host, port = seller.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(b"GET /free HTTP/1.1\r\nHost: x\r\n\r\n")
        assert eventually(lambda: alive == [1])
    assert eventually(lambda: alive == [0])


def test_a_server_that_cancels_the_request_does_not_cancel_the_sale() -> None:
    """What is then owed waits for its payer: nothing is sent to a request that is over."""
    finished: list[bool] = []
    begun, may_end = asyncio.Event(), asyncio.Event()

    @paid("daily_report")
    async def slow(request: Request) -> Response:
        begun.set()
        await may_end.wait()
        finished.append(True)
        return PlainTextResponse(CONTENT)

    emulator = Emulator()
    app = shop_of(Route("/slow", slow), emulator=emulator, public_url="https://seller.example")

    async def main() -> None:
        sent: list[Any] = []
        await app(http_scope("/slow"), never, collect(sent))
        proof = Wallet().pay(header(sent, b"payment-required"))
        late: list[Any] = []
        task = asyncio.create_task(app(http_scope("/slow", proof), never, collect(late)))
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not finished
        may_end.set()
        await wait_shielded()
        assert (finished, late) == ([True], [])
        again: list[Any] = []
        await app(http_scope("/slow", proof), never, collect(again))
        assert again[1]["body"] == CONTENT.encode()
        assert finished == [True]

    asyncio.run(main())
    assert [call.status for call in emulator.calls() if call.path.endswith("/complete")] == [200]
