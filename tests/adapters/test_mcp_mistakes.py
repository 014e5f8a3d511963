"""What a seller may get wrong with an MCP server fails at import or at start, and gives nothing away."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.server import MCPServer, Server
from mcp.server.extension import Extension
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult, TextContent

from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.mcp import Payment, add_paywall, paid
from faregate.paywall import Paywall
from tests.adapters.asgi import a_paywall
from tests.adapters.mcp_shop import PAYMENT, Buyer, text_of
from tests.adapters.test_mcp import MODERN

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def paywall() -> Paywall:
    return a_paywall()


async def report() -> str:
    return "paid content"


def returns_questions() -> str | InputRequiredResult:
    return "paid content"


def takes_payment(payment: Payment) -> str:
    return "paid content"


class Tools:
    @staticmethod
    def report() -> str:
        return "paid content"


@pytest.mark.parametrize(
    ("decorate", "said"),
    [
        (lambda: paid(report), "takes the name of what is sold"),  # type: ignore[call-overload]
        (lambda: paid(""), "Say what is sold"),
        (lambda: paid("daily_report", billable=frozenset((200, 500))), "leave billable out"),
        (lambda: paid("daily_report", asset="GBP"), "EURC or USDC"),  # type: ignore[call-overload]
        (lambda: paid("daily_report")(paid("text_summary")(report)), "Keep one offer"),
        (lambda: paid("daily_report")(paid("daily_report")(report)), "Keep one offer"),
        (lambda: paid("daily_report")(Tools), "is none"),
        (lambda: paid("daily_report")(Tools.__dict__["report"]), "Put @staticmethod above"),
        (lambda: paid("daily_report")(7), "is none"),  # type: ignore[type-var]
        (lambda: paid("daily_report")(returns_questions), "Ask before the price"),
        (lambda: MCPServer("shop").tool()(takes_payment), "nothing says what is sold"),
        (lambda: add_paywall(print), "goes to an MCPServer"),  # type: ignore[arg-type]
        (lambda: add_paywall(MCPServer("shop"), sweep_every=0), "sweep_every"),
    ],
)
def test_a_mistake_fails_where_it_is_written(decorate: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        decorate()


def test_a_second_paywall_is_refused(paywall: Paywall) -> None:
    server = MCPServer("shop")
    add_paywall(server, paywall)
    with pytest.raises(ConfigurationError, match="call add_paywall once"):
        add_paywall(server, paywall)


def test_a_paywall_and_the_arguments_of_one_are_refused(paywall: Paywall) -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        add_paywall(MCPServer("shop"), paywall, timeout=3)


async def test_a_price_above_the_tool_decorator_fails_the_start(paywall: Paywall) -> None:
    server = MCPServer("shop")
    add_paywall(server, paywall)

    @paid("daily_report")
    @server.tool()
    async def report() -> str:
        return "paid content"

    with pytest.RaisesGroup(
        pytest.RaisesExc(ConfigurationError, match="below @server.tool"), flatten_subgroups=True
    ):
        async with Client(server, mode="legacy"):
            pass


async def test_a_tool_that_is_added_later_without_its_price_gives_nothing_away(paywall: Paywall) -> None:
    server = MCPServer("shop")
    add_paywall(server, paywall)
    async with Client(server) as client:

        async def later() -> str:
            return "paid content"

        server.add_tool(later)
        paid("daily_report")(later)
        with pytest.raises(MCPError) as refused:
            await client.call_tool("later")
    assert "paid content" not in str(refused.value)


async def test_a_paid_tool_without_a_paywall_gives_nothing_away() -> None:
    server = MCPServer("shop")
    server.add_tool(paid("daily_report")(report))
    async with Client(server) as client:
        result = await client.call_tool("report")
    assert (result.is_error, text_of(result)) == (True, "Error executing tool report")


async def test_an_offer_that_is_made_in_a_tool_gives_nothing_away(paywall: Paywall) -> None:
    server = MCPServer("shop")
    add_paywall(server, paywall)

    @server.tool()
    async def inside() -> str:
        paid("daily_report")(report)
        return "paid content"

    async with Client(server) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("inside")
    assert "paid content" not in str(refused.value)


async def test_a_cache_before_a_paid_tool_gives_nothing_away(paywall: Paywall) -> None:
    server = MCPServer("shop")
    add_paywall(server, paywall)
    server.add_tool(paid("daily_report")(report))

    async def cache(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call":
            return CallToolResult(content=[TextContent(type="text", text="paid content")])
        return await call_next(ctx)

    server.middleware.append(cache)
    async with Client(server) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("report")
    assert "paid content" not in str(refused.value)


@pytest.mark.parametrize("name", ["alias", "REPORT", "report_"])
async def test_what_is_no_tool_gives_no_result_away(name: str, paywall: Paywall) -> None:
    """Middleware that keeps results may read another name as that of a paid tool."""
    server = MCPServer("shop")
    add_paywall(server, paywall)
    server.tool()(paid("daily_report")(report))

    async def recall(ctx: Any, call_next: Any) -> Any:
        kept = CallToolResult(content=[TextContent(type="text", text="paid content")])
        return kept if ctx.method == "tools/call" else await call_next(ctx)

    server.middleware.append(recall)
    async with Client(server) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool(name, {})
    assert "paid content" not in str(refused.value)


async def test_what_is_no_tool_answers_where_nothing_is_sold(paywall: Paywall) -> None:
    async def free() -> str:
        return "free"

    server = MCPServer("shop")
    add_paywall(server, paywall)
    server.tool()(free)

    async def answer(ctx: Any, call_next: Any) -> Any:
        own = CallToolResult(content=[TextContent(type="text", text="its own")])
        return own if ctx.method == "tools/call" else await call_next(ctx)

    server.middleware.append(answer)
    async with Client(server) as client:
        assert text_of(await client.call_tool("other", {})) == "its own"


async def test_the_paywall_is_outside_the_sellers_middleware(paywall: Paywall) -> None:
    async def own(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    server = MCPServer("shop", middleware=[own])
    middleware = add_paywall(server, paywall)
    assert server.middleware.index(middleware) == server.middleware.index(own) - 1


async def test_a_sold_resource_gives_nothing_away(paywall: Paywall) -> None:
    server = MCPServer("shop")
    add_paywall(server, paywall)
    server.resource("shop://report/{city}")(paid("daily_report")(sunny))
    async with Client(server) as client:
        with pytest.raises(MCPError) as refused:
            await client.read_resource("shop://report/Oslo")
    assert "paid content" not in str(refused.value)


async def sunny(city: str) -> str:
    return f"paid content of {city}"


@pytest.mark.parametrize("kind", ["com.example/task", "complete"])
async def test_a_tool_that_outlives_its_call_gives_nothing_to_a_later_request(
    kind: str, paywall: Paywall
) -> None:
    """An extension may answer a slow call with the name of a task, and keep what the tool returns for it."""
    may_end, ended, kept = anyio.Event(), anyio.Event(), list[Any]()

    class Tasks(Extension):
        identifier = "com.example/tasks"

        async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
            if params.name != "slow" or PAYMENT not in (params.meta or {}):
                return await call_next(ctx)
            tool = asyncio.ensure_future(call_next(ctx))
            await asyncio.wait([tool], timeout=0.1)
            tool.add_done_callback(lambda done: kept.append(done.result()))
            tool.add_done_callback(lambda _done: ended.set())
            return {"resultType": kind, "content": [{"type": "text", "text": "task 7"}]}

    server = MCPServer("shop", extensions=[Tasks()])
    add_paywall(server, paywall)

    @server.tool(structured_output=False)
    @paid("daily_report")
    async def slow() -> str:
        await may_end.wait()
        return "paid content"

    async with Client(server, mode=MODERN) as client:
        buyer = Buyer(client, Wallet())
        payment = await buyer.ask("slow")
        if kind == "complete":  # the name of the task is what was sold
            assert text_of(await buyer.call("slow", {}, payment)) == "task 7"
        else:
            with pytest.raises(MCPError):
                await buyer.call("slow", {}, payment)
        may_end.set()
        with anyio.fail_after(30):
            await ended.wait()
    assert ("paid content" in str(kept)) is (kind == "complete")


async def test_one_call_cannot_reach_two_offers(paywall: Paywall) -> None:
    server = MCPServer("shop")
    add_paywall(server, paywall)

    @paid("text_summary")
    async def other() -> str:
        return "paid content"

    @server.tool()
    @paid("free_notes")
    async def both() -> str:
        return await other()

    async with Client(server) as client:
        result = await client.call_tool("both")
    assert result.is_error
    assert "paid content" not in str(result)


async def test_a_low_level_server_sells_what_its_handler_calls(paywall: Paywall) -> None:
    async def call(ctx: Any, params: Any) -> CallToolResult:
        sold = await sell(params.arguments["city"])
        return (
            sold
            if isinstance(sold, CallToolResult)
            else CallToolResult(content=[TextContent(type="text", text=sold)])
        )

    @paid("daily_report")
    async def report_of(city: str, payment: Payment) -> str:
        return city

    sell: Any = report_of
    server: Server[Any] = Server("shop", on_call_tool=call)
    add_paywall(server, paywall)
    async with Client(server) as client:
        result = await client.call_tool("report", {"city": "Oslo"})
    assert '"accepts"' in text_of(result)
    assert result.structured_content is None
