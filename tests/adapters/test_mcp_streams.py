"""What leaves an MCP server beside a result, and whose result is kept: streams, stores and messages."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult
from starlette.applications import Starlette
from starlette.routing import Mount

from faregate.emulator import TEST_KEY, Wallet
from faregate.errors import ConfigurationError
from faregate.mcp import add_paywall, list_routes
from tests.adapters.mcp_shop import Buyer, Shop, make_shop, receipt_of, said, text_of
from tests.adapters.test_mcp import LEGACY, MODERN, until
from tests.servers.http import serving
from tests.support.faulty_service import FaultyService, answers

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(name="shop")
def _shop() -> Generator[Shop]:
    service = FaultyService()
    with service.serving() as url:
        yield make_shop(service, url)


# Event stores


class Events(EventStore):
    """Keeps the events of all streams in one list, as the example of the SDK does; an id is a place in it."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        at = int(last_event_id)
        stream = self.kept[at - 1][0]
        for number, (name, message) in enumerate(self.kept[at:], at + 1):
            if name == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


@asynccontextmanager
async def connected(url: str, mode: Any = LEGACY, **options: Any) -> AsyncGenerator[Buyer]:
    async with Client(streamable_http_client(f"{url}/mcp"), mode=mode, **options) as client:
        yield Buyer(client, Wallet())


HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def resume_all(url: str, last: int) -> str:
    """All that a stranger gets who opens a session of its own, and asks for what followed on each event."""
    with httpx.Client(base_url=url, headers=HEADERS, trust_env=False, timeout=0.3) as http:
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        opened = http.post(
            "/mcp", json={"jsonrpc": "2.0", "id": "m", "method": "initialize", "params": hello}
        )
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        seen = ""
        for number in range(1, last + 1):
            try:
                with http.stream("GET", "/mcp", headers=session | {"last-event-id": str(number)}) as stream:
                    for line in stream.iter_lines():
                        seen += line
            except httpx.ReadTimeout:
                continue  # the stream stays open for more
    return seen


def app_by_hand(shop: Shop, store: EventStore, **options: Any) -> Starlette:
    """Around a session manager that the server knows nothing of, as the examples of the SDK make it."""
    manager = StreamableHTTPSessionManager(shop.server._lowlevel_server, event_store=store, **options)
    return Starlette(routes=[Mount("/", manager.handle_request)], lifespan=lambda _: manager.run())


@pytest.mark.parametrize("json_response", [False, True])
async def test_no_result_is_kept_for_others_to_fetch(shop: Shop, json_response: bool) -> None:
    store = Events()
    with serving(app_by_hand(shop, store, json_response=json_response)) as url:
        async with connected(url) as alice:
            bought: Any = None
            with anyio.move_on_after(20):
                try:
                    bought = await alice.buy("report", {"city": "Bergen"})
                except Exception as error:
                    bought = error
            free = await alice.call("echo", {"text": "free"})
        seen = await anyio.to_thread.run_sync(resume_all, url, len(store.kept))
    kept = " ".join(str(message) for _, message in store.kept)
    assert ("sunny" in seen, "sunny" in kept, shop.runs, shop.statuses) == (False, False, [], [])
    assert not isinstance(bought, CallToolResult) or bought.is_error
    assert text_of(free) == "free"


async def test_a_stateless_server_keeps_nothing_and_sells(shop: Shop) -> None:
    store = Events()
    app = shop.server.streamable_http_app(event_store=store, stateless_http=True)
    with serving(app) as url:
        async with connected(url) as alice:
            assert text_of(await alice.buy("report", {"city": "Bergen"})) == "sunny in Bergen"
    assert store.kept == []


@pytest.mark.parametrize("json_response", [False, True])
async def test_an_event_store_beside_paid_tools_fails_the_start(shop: Shop, json_response: bool) -> None:
    app = shop.server.streamable_http_app(event_store=Events(), json_response=json_response)
    with pytest.raises(ConfigurationError, match="Leave event_store out"):
        async with app.router.lifespan_context(app):
            pytest.fail("it started")
    assert any("event_store" in mistake for mistake in list_routes(shop.server).mistakes)


async def test_an_event_store_of_a_low_level_server_fails_the_start() -> None:
    """What it sells is not known before it is called."""
    server: Server[Any] = Server("shop")
    add_paywall(server, api_key=TEST_KEY, base_url="http://127.0.0.1:9")
    app = server.streamable_http_app(event_store=Events())
    with pytest.raises(ConfigurationError, match="Leave event_store out"):
        async with app.router.lifespan_context(app):
            pytest.fail("it started")


async def test_an_event_store_beside_free_tools_is_allowed() -> None:
    server = MCPServer("free")
    add_paywall(server, api_key=TEST_KEY, base_url="http://127.0.0.1:9")
    server.tool()(echo)
    with serving(server.streamable_http_app(event_store=Events())) as url:
        async with connected(url) as client:
            assert text_of(await client.call("echo", {"text": "hi"})) == "hi"


def echo(text: str) -> str:
    return text


# Messages


class Heard:
    """What a client hears beside its results, in order."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    async def on_message(self, message: Any) -> None:
        if not isinstance(message, Exception):
            self.messages.append(message.model_dump_json())

    async def on_log(self, params: Any) -> None:
        self.messages.append(f"log {params.data}")

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.messages.append(f"progress {progress} {total} {message}")

    @property
    def options(self) -> dict[str, Any]:
        return {"logging_callback": self.on_log, "message_handler": self.on_message}

    def has(self, text: str) -> bool:
        return any(text in message for message in self.messages)


async def call(buyer: Buyer, heard: Heard, name: str, payment: Any) -> CallToolResult:
    meta: Any = {"x402/payment": payment, "io.modelcontextprotocol/logLevel": "debug"}
    return await buyer.client.call_tool(name, {}, meta=meta, progress_callback=heard.on_progress)


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_what_a_paid_tool_says_leaves_with_its_result(shop: Shop, mode: Any) -> None:
    heard = Heard()
    with serving(shop.server.streamable_http_app()) as url:
        async with connected(url, mode, **heard.options) as buyer:
            payment = await buyer.ask("talking")
            during: list[str] = []
            shop.may_end = False

            async def watch() -> None:
                await until(lambda: "talked" in shop.runs)
                await anyio.sleep(0.1)
                during.extend(heard.messages)
                shop.may_end = True

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                result = await call(buyer, heard, "talking", payment)
            await anyio.sleep(0.1)
    assert text_of(result) == "sunny"
    assert receipt_of(result)["success"] is True
    assert not any("sunny" in message or "42" in message for message in during), during
    assert "progress 1.0 None None" in during
    assert heard.has("log sunny for")


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_what_a_paid_tool_says_is_dropped_with_a_result_that_is_not_released(
    shop: Shop, mode: Any
) -> None:
    heard, shop.may_end = Heard(), True
    with serving(shop.server.streamable_http_app()) as url:
        async with connected(url, mode, **heard.options) as buyer:
            payment = await buyer.ask("talking")
            shop.service.fails("complete", *(answers(503, b"down") for _ in range(20)))
            result = await call(buyer, heard, "talking", payment)
            await anyio.sleep(0.1)
    assert said(result)["code"] == "completion_refused"
    assert not heard.has("sunny"), heard.messages
    assert not heard.has("42"), heard.messages


@pytest.mark.parametrize("is_released", [True, False])
async def test_what_a_paid_tool_says_to_another_session_waits_for_its_payment(
    shop: Shop, is_released: bool
) -> None:
    heard = Heard()
    with serving(shop.server.streamable_http_app()) as url:
        async with connected(url, LEGACY, **heard.options) as listener, connected(url, LEGACY) as buyer:
            await listener.call("listening")
            payment = await buyer.ask("broadcasting")
            if not is_released:
                shop.service.fails("complete", *(answers(503, b"down") for _ in range(20)))
            result = await buyer.call("broadcasting", {}, payment)
            assert (result.is_error, shop.runs) == (not is_released, ["talked"])
            if is_released:
                await until(lambda: heard.has("sunny for"))
            await anyio.sleep(0.1)
    assert heard.has("sunny for") is is_released


async def test_a_free_tool_and_a_free_access_speak_at_once(shop: Shop) -> None:
    heard, shop.may_end = Heard(), True
    with serving(shop.server.streamable_http_app()) as url:
        async with connected(url, LEGACY, **heard.options) as buyer:
            for name in ("chatting", "chatting_for_nothing"):
                heard.messages.clear()
                result = await call(buyer, heard, name, None)
                assert text_of(result) == "done"
                assert heard.has("progress 42.0 43.0 sunny")
                assert heard.has("log sunny for")


async def test_questions_of_earlier_protocols_are_asked_before_the_price(shop: Shop) -> None:
    asked: list[str] = []

    async def answer(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"size": "small"})

    with serving(shop.server.streamable_http_app()) as url:
        async with connected(url, LEGACY, elicitation_callback=answer) as buyer:
            bought = await buyer.buy("asking")
    assert (text_of(bought), asked, shop.statuses) == ("small", ["Which size?"] * 2, ["succeeded"])
