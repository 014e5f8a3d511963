"""What a cache in front of MCP tools keeps of a paid result leaves under no name and no method."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import Any

import pytest
from mcp.client import Client
from mcp.server import MCPServer, Server
from mcp.server.extension import Extension
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    ListToolsRequest,
    ListToolsResult,
    TextContent,
)

from faregate.emulator import Wallet
from faregate.mcp import add_paywall, paid
from faregate.mcp.results import dump_result
from faregate.paywall import Paywall
from tests.adapters.asgi import a_paywall
from tests.adapters.mcp_shop import Buyer, text_of
from tests.adapters.test_exception_answers import list_statuses
from tests.adapters.test_mcp import LEGACY, MODERN
from tests.attacks.content import Content
from tests.attacks.report import figures

pytestmark = pytest.mark.anyio
METHODS = ("tools/call", "tools/list", "resources/read", "prompts/get")
KIND = "copies of a tool's result"
WELL = "all is well since this morning"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def paywall() -> Paywall:
    return a_paywall()


# How a cache reads a call, and what it gives of a result

Key = Callable[[str, Any], str]
KEYS: dict[str, Key] = {
    "arguments": lambda _method, params: json.dumps(params.get("arguments")),
    "name and arguments": lambda _method, params: json.dumps([params.get("name"), params.get("arguments")]),
    "folded name": lambda _method, params: str(params.get("name")).lower()[:1],
    "nothing": lambda _method, _params: "",
}
MODES = (LEGACY, MODERN) * 2
Give = Callable[[Any], Any]


def find_name(params: Any) -> Any:
    return None if params is None else params.get("name")


GIVE: dict[str, Give] = {
    "whole": lambda result: result,
    "content": lambda result: {"content": dump_result(result)["content"]},
    "structured": lambda result: {
        "content": [],
        "structuredContent": dump_result(result)["structuredContent"],
    },
    "text": lambda result: CallToolResult(
        content=[TextContent(type="text", text=dump_result(result)["content"][0]["text"])]
    ),
    "blocks": lambda result: {
        "content": [TextContent(type="text", text=dump_result(result)["content"][0]["text"])]
    },
    "as an error": lambda result: {**dump_result(result), "isError": True},
    "as a resource": lambda result: {
        "contents": [{"uri": "shop://free", "text": dump_result(result)["content"][0]["text"]}]
    },
    "as a prompt": lambda result: {
        "messages": [{"role": "user", "content": dump_result(result)["content"][0]}]
    },
}


class Cache:
    """Keeps the first result that is no error, and gives what it has for its key."""

    def __init__(self, key: Key, give: Give) -> None:
        self._key, self._give = key, give
        self._kept: dict[str, Any] = {}

    def find(self, method: str, params: Any) -> Any:
        kept = self._kept.get(self._key(method, params or {}))
        return None if kept is None else self._give(kept)

    def keep(self, method: str, params: Any, result: Any) -> None:
        if (
            method == "tools/call"
            and params.get("name") == "report"
            and not dump_result(result).get("isError")
        ):
            self._kept.setdefault(self._key(method, params), result)


def put_middleware(cache: Cache, paywall: Paywall) -> MCPServer[Any]:
    async def run(ctx: Any, call_next: Any) -> Any:
        if ctx.method not in METHODS:
            return await call_next(ctx)
        found = cache.find(ctx.method, ctx.params)
        if found is not None and "x402/payment" not in str(ctx.params):
            return found
        result = await call_next(ctx)
        cache.keep(ctx.method, ctx.params, result)
        return result

    server: MCPServer[Any] = MCPServer("shop")
    add_paywall(server, paywall)
    server.middleware.append(run)
    return server


def put_stale_middleware(cache: Cache, paywall: Paywall) -> MCPServer[Any]:
    """The same, that lets the server answer first, and puts what it has in place of that."""

    async def run(ctx: Any, call_next: Any) -> Any:
        if ctx.method not in METHODS:
            return await call_next(ctx)
        result = await call_next(ctx)
        cache.keep(ctx.method, ctx.params, result)
        return cache.find(ctx.method, ctx.params) or result

    server: MCPServer[Any] = MCPServer("shop")
    add_paywall(server, paywall)
    server.middleware.append(run)
    return server


def put_extension(cache: Cache, paywall: Paywall) -> MCPServer[Any]:
    class Cached(Extension):
        identifier = "com.example/cache"

        async def intercept_tool_call(self, params: CallToolRequestParams, ctx: Any, call_next: Any) -> Any:
            asked = params.model_dump(by_alias=True, mode="json")
            found = cache.find("tools/call", asked)
            if found is not None and "x402/payment" not in (asked.get("_meta") or {}):
                return found
            result = await call_next(ctx)
            cache.keep("tools/call", asked, result)
            return result

    server: MCPServer[Any] = MCPServer("shop", extensions=[Cached()])
    add_paywall(server, paywall)
    return server


def put_subclass(cache: Cache, paywall: Paywall) -> MCPServer[Any]:
    class CachedServer(MCPServer[Any]):
        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            asked = {"name": name, "arguments": arguments}
            if name != "report" and (found := cache.find("tools/call", asked)) is not None:
                return found
            result = await super().call_tool(name, arguments, context)
            cache.keep("tools/call", asked, result)
            return result

    server = CachedServer("shop")
    add_paywall(server, paywall)
    return server


PLACES = {
    "middleware": put_middleware,
    "stale middleware": put_stale_middleware,
    "extension": put_extension,
    "subclass": put_subclass,
}


class Site:
    """A server with a paid tool and a free one of each kind, and a payer."""

    def __init__(self, server: MCPServer[Any]) -> None:
        self.content = Content()
        self.server = server
        sold = paid("daily_report")(self._report)
        server.add_tool(sold, name="report")
        server.add_tool(paid("text_summary")(self._other), name="other")
        server.add_tool(self._free, name="free")
        server.add_tool(self._free, name="REPORT")
        server.resource("shop://free")(_note)
        server.prompt("report")(_note)

    def _report(self, city: str = "Oslo") -> str:
        return self.content.mark("body")

    def _other(self, city: str = "Oslo") -> str:
        return "other"

    def _free(self, city: str = "Oslo") -> str:
        return "free"

    async def take(self, client: Client) -> None:
        """Ask for everything without a payment."""
        for name in ("report", "other", "free", "REPORT", "none", "report "):
            for arguments in ({}, {"city": "Oslo"}):
                request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
                self._count(await _get(client.session.send_request(request, CallToolResult)))
        self._count(await _get(client.read_resource("shop://free")))
        self._count(await _get(client.get_prompt("report", {})))
        self._count(await _get(client.session.send_request(ListToolsRequest(), EmptyResult)))

    def _count(self, answer: str) -> None:
        found = self.content.found_in([answer.encode()])
        figures.count(KIND, found)
        assert not found, answer


def _note() -> str:
    return "free"


async def _get(asked: Any) -> str:
    try:
        answer = await asked
    except (MCPError, ValueError, RuntimeError) as error:
        return repr(error) + str(getattr(error, "error", ""))
    return str(answer.model_dump_json())


@pytest.mark.parametrize("give", GIVE.values(), ids=GIVE)
@pytest.mark.parametrize(("key", "mode"), list(zip(KEYS.values(), MODES, strict=True)), ids=KEYS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_a_kept_result_leaves_under_no_name(
    place: Callable[[Cache, Paywall], MCPServer[Any]], key: Key, give: Give, mode: Any, paywall: Paywall
) -> None:
    site = Site(place(Cache(key, give), paywall))
    async with Client(site.server, mode=mode) as client:
        buyer = Buyer(client, Wallet())
        assert text_of(await buyer.call("free")) == "free"
        wanted = [(arguments, await buyer.ask("report", arguments)) for arguments in ({}, {"city": "Oslo"})]
        for arguments, payment in wanted:
            # The cache answered, with what the paywall withholds or what is no result of this tool.
            with suppress(MCPError, RuntimeError, ValueError):
                await buyer.call("report", arguments, payment)
        await site.take(client)


async def test_a_kept_result_does_not_leave_as_the_error_of_a_tool(paywall: Paywall) -> None:
    """As from a cache that answers for work that failed."""
    server: MCPServer[Any] = MCPServer("shop")
    add_paywall(server, paywall)
    answers = [(WELL, False), (WELL, True), ("the archive is away today", True), (WELL, False)]

    async def report() -> CallToolResult:
        text, is_error = answers.pop(0)
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)

    server.add_tool(paid("daily_report")(report), name="report")
    async with Client(server) as client:
        buyer = Buyer(client, Wallet())
        assert text_of(await buyer.buy("report")) == WELL
        stale = await buyer.buy("report")
        assert (stale.is_error, WELL in stale.model_dump_json()) == (True, False)
        assert text_of(await buyer.buy("report")) == "the archive is away today"
        assert text_of(await buyer.buy("report")) == WELL
    assert list_statuses(paywall) == ["succeeded", "failed", "failed", "succeeded"]


# What is no copy


async def test_a_free_tool_may_return_what_another_one_sells(paywall: Paywall) -> None:
    server: MCPServer[Any] = MCPServer("shop")
    add_paywall(server, paywall)
    server.add_tool(paid("daily_report")(_say_well), name="report")
    server.add_tool(_say_it_free, name="members")
    server.resource("shop://well")(_say_it_free)
    server.prompt("well")(_say_it_free)
    async with Client(server) as client:
        buyer = Buyer(client, Wallet())
        for _ in range(2):
            assert text_of(await buyer.buy("report")) == WELL
            assert text_of(await buyer.call("members")) == WELL
            assert WELL in str(await client.read_resource("shop://well"))
            assert WELL in str(await client.get_prompt("well", {}))


async def _say_well() -> str:
    return WELL


async def _say_it_free() -> str:
    return WELL


async def test_middleware_answers_a_free_tool_with_its_own_words(paywall: Paywall) -> None:
    """Also with those of a result which it said before they were sold, and with short ones."""
    server: MCPServer[Any] = MCPServer("shop")
    add_paywall(server, paywall)
    words = {"health": WELL, "short": "ok", "other": "what nobody sells, however long"}
    server.add_tool(paid("daily_report")(_say_well), name="report")
    server.add_tool(paid("text_summary")(_sell_ok), name="summary")
    for name in words:
        server.add_tool(_say_ok, name=name, structured_output=False)

    async def answer(ctx: Any, call_next: Any) -> Any:
        said = words.get(find_name(ctx.params))
        return await call_next(ctx) if said is None else {"content": [{"type": "text", "text": said}]}

    server.middleware.append(answer)
    async with Client(server, mode=LEGACY) as client:
        buyer = Buyer(client, Wallet())
        for _ in range(2):
            assert {name: text_of(await buyer.call(name)) for name in words} == words
            assert text_of(await buyer.buy("report")) == WELL
            assert text_of(await buyer.buy("summary")) == "ok"


async def _say_ok() -> str:
    return "ok"


async def _sell_ok() -> str:
    return "ok"


@pytest.mark.parametrize("sold", [True, False])
async def test_any_value_of_a_tool_and_of_middleware_is_let_through(sold: bool, paywall: Paywall) -> None:
    """A subclass may ask for the plain value of a tool, and middleware may answer with what is no JSON."""

    class PlainServer(MCPServer[Any]):
        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            value = await self._tool_manager.call_tool(name, arguments, context)
            return (
                value if isinstance(value, CallToolResult) else CallToolResult(content=[_write(str(value))])
            )

    server = PlainServer("shop")
    add_paywall(server, paywall)
    server.add_tool(paid("daily_report")(_say_well), name="report", structured_output=False)
    server.add_tool(_say_it_free, name="free", structured_output=False)
    server.add_tool(_count, name="count", structured_output=False)
    today = date(2026, 11, 26)

    async def answer(ctx: Any, call_next: Any) -> Any:
        odd = {"content": [{"type": "text", "text": "a block"}], "structuredContent": {"at": today}}
        return odd if find_name(ctx.params) == "count" and "x" in str(ctx.params) else await call_next(ctx)

    server.middleware.append(answer)
    async with Client(server, mode=LEGACY) as client:
        buyer = Buyer(client, Wallet())
        if sold:
            assert text_of(await buyer.buy("report")) == WELL
        assert text_of(await buyer.call("free")) == WELL
        assert text_of(await buyer.call("count")) == "42"
        assert text_of(await buyer.call("count", {"x": 1})) == "a block"


async def _count() -> int:
    return 42


async def test_what_changes_the_answer_of_a_free_tool_is_let_through(paywall: Paywall) -> None:
    server: MCPServer[Any] = MCPServer("shop")
    add_paywall(server, paywall)
    server.add_tool(paid("daily_report")(_say_well), name="report")
    server.add_tool(_say_it_free, name="free")

    async def sign(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "tools/call":
            result["content"].append({"type": "text", "text": "signed"})
        return result

    server.middleware.append(sign)
    async with Client(server) as client:
        buyer = Buyer(client, Wallet())
        assert len((await buyer.buy("report")).content) == 2
        assert len((await buyer.call("free")).content) == 2


async def test_a_cache_of_free_tools_may_keep_what_a_paid_one_says_too(paywall: Paywall) -> None:
    """Such as that nothing was found."""
    server: MCPServer[Any] = MCPServer("shop")
    add_paywall(server, paywall)
    server.add_tool(paid("daily_report")(_say_well), name="report")
    server.add_tool(_say_it_free, name="free")
    kept = dict[str, Any]()

    async def cache(ctx: Any, call_next: Any) -> Any:
        if find_name(ctx.params) != "free":
            return await call_next(ctx)
        kept["free"] = kept.get("free") or await call_next(ctx)
        return kept["free"]

    server.middleware.append(cache)
    async with Client(server) as client:
        buyer = Buyer(client, Wallet())
        for _ in range(2):
            assert text_of(await buyer.call("free")) == WELL
            assert text_of(await buyer.buy("report")) == WELL


async def test_a_cache_of_free_tools_may_keep_what_a_paid_one_calls(paywall: Paywall) -> None:
    server: MCPServer[Any] = MCPServer("shop")
    add_paywall(server, paywall)
    server.add_tool(_say_it_free, name="free")
    kept: list[Any] = []

    @server.tool(name="report")
    @paid("daily_report")
    async def report() -> str:
        return f"the report: {await server.call_tool('free', {})}"

    async def cache(ctx: Any, call_next: Any) -> Any:
        is_free = find_name(ctx.params) == "free"
        result = kept[0] if is_free and kept else await call_next(ctx)
        if is_free:
            kept.append(result)
        return result

    server.middleware.append(cache)
    async with Client(server) as client:
        buyer = Buyer(client, Wallet())
        for _ in range(2):
            assert text_of(await buyer.call("free")) == WELL
            assert "the report" in text_of(await buyer.buy("report"))


async def test_the_handler_of_a_low_level_server_answers_for_itself(paywall: Paywall) -> None:
    """What it returns is its own, and what answers in its place is compared."""
    kept: list[Any] = []
    sell: Any = paid("daily_report")(_say_well)

    async def run(_ctx: Any, params: Any) -> CallToolResult:
        words = await (sell() if params.name == "report" else _say_it_free())
        return words if isinstance(words, CallToolResult) else CallToolResult(content=[_write(words)])

    async def cache(ctx: Any, call_next: Any) -> Any:
        is_kept = kept and find_name(ctx.params) == "kept"
        result = kept[0] if is_kept else await call_next(ctx)
        if ctx.method == "tools/call" and not result.get("isError"):
            kept.append(result)
        return result

    server: Server[Any] = Server("shop", on_call_tool=run, on_list_tools=_list_none)
    add_paywall(server, paywall)
    server.middleware.append(cache)
    async with Client(server) as client:
        buyer = Buyer(client, Wallet())
        assert text_of(await buyer.buy("report")) == WELL
        with pytest.raises(MCPError) as refused:
            await buyer.call("kept")
        assert text_of(await buyer.call("free")) == WELL
    assert WELL not in str(refused.value)


async def _list_none(_ctx: Any, _params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[])


def _write(words: str) -> TextContent:
    return TextContent(type="text", text=words)
