"""An MCP server that sells tools, the service behind it, and a payer."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import anyio
from mcp.client import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    InputRequiredResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    TextContent,
)
from pydantic import BaseModel

from faregate.emulator import TEST_KEY, Wallet
from faregate.journals.memory import MemoryJournal
from faregate.mcp import Payment, add_paywall, paid
from faregate.paywall import Paywall
from tests.journals.stores import Clock
from tests.support.faulty_service import FaultyService
from tests.support.headers import decode_header, encode_header

PAYMENT, RECEIPT = "x402/payment", "x402/payment-response"


class Choice(BaseModel):
    size: str


async def choose() -> Elicit[Choice]:
    return Elicit("Which size?", Choice)


class Shade(BaseModel):
    shade: str


async def choose_shade(choice: Annotated[Choice, Resolve(choose)]) -> Elicit[Shade]:
    return Elicit(f"Which shade of {choice.size}?", Shade)


@dataclass
class Shop:
    """`runs` has an entry for each time that a tool did its work."""

    service: FaultyService
    paywall: Paywall
    clock: Clock
    wallet: Wallet = field(default_factory=Wallet)
    runs: list[str] = field(default_factory=list)
    may_end: bool = False
    sessions: list[Any] = field(default_factory=list)
    server: MCPServer[Any] = field(default_factory=lambda: MCPServer("shop"))

    def __post_init__(self) -> None:
        add_paywall(self.server, self.paywall)
        add_tools(self)

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncGenerator["Buyer"]:
        async with Client(self.server, **options) as client:
            yield Buyer(client, self.wallet)

    @property
    def statuses(self) -> list[str]:
        return [one["status"] for one in self.service.list_transactions()]


def make_shop(service: FaultyService, url: str, **settings: Any) -> Shop:
    clock = Clock()
    paywall = Paywall(
        api_key=TEST_KEY,
        base_url=url,
        public_url="https://seller.example",
        journal=MemoryJournal(clock=clock),
        timeout=30,  # a busy machine may be slow
        environ={},
        settle_wait=0,
        **settings,
    )
    return Shop(service, paywall, clock)


@dataclass
class Buyer:
    """Calls tools as a client of the SDK does that pays by hand."""

    client: Client
    wallet: Wallet

    async def call(
        self, name: str, arguments: dict[str, Any] | None = None, payment: Any = None
    ) -> CallToolResult:
        meta: Any = None if payment is None else {PAYMENT: payment}
        return await self.client.call_tool(name, arguments or {}, meta=meta)

    async def ask(self, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """A payment signed for what the shop asks for this call."""
        return sign(self.wallet, await self.call(name, arguments))

    async def buy(self, name: str, arguments: dict[str, Any] | None = None) -> CallToolResult:
        return await self.call(name, arguments, await self.ask(name, arguments))


def sign(wallet: Wallet, asked: CallToolResult) -> dict[str, Any]:
    required = said(asked)
    assert required["accepts"], required
    payment: dict[str, Any] = decode_header(wallet.pay(encode_header(required)))
    return payment


def said(result: CallToolResult) -> dict[str, Any]:
    """What the paywall says in an error."""
    assert result.is_error
    found: dict[str, Any] = json.loads(text_of(result))
    return found


def text_of(result: CallToolResult) -> str:
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


def receipt_of(result: CallToolResult) -> Any:
    return (result.meta or {}).get(RECEIPT)


def add_tools(shop: Shop) -> None:
    server, runs = shop.server, shop.runs

    @server.tool()
    @paid("daily_report")
    async def report(city: str = "Oslo", *, payment: Payment) -> str:
        runs.append(city)
        assert payment.transaction_id is not None
        return f"sunny in {city}"

    @server.tool(structured_output=False)
    @paid("daily_report")
    def plain() -> str:
        runs.append("plain")
        return "sunny"

    @server.tool(structured_output=False)
    @paid("daily_report")
    def plain_unsendable() -> str:
        runs.append("plain_unsendable")
        return "sunny \ud800"

    @server.tool()
    @paid("daily_report")
    def structured_unsendable() -> str:
        runs.append("structured_unsendable")
        return "sunny \ud800"

    @server.tool()
    @paid("daily_report")
    def number_unsendable() -> dict[str, float]:
        runs.append("number_unsendable")
        return {"degrees": float("nan")}

    @server.tool()
    @paid("daily_report")
    def nullable() -> dict[str, float | None]:
        return {"degrees": None}

    @server.tool(structured_output=False)
    @paid("daily_report")
    def meta_unsendable() -> CallToolResult:
        runs.append("meta_unsendable")
        return CallToolResult(content=[TextContent(type="text", text="sunny")], _meta={"note": "\ud800"})

    @server.tool()
    @paid("token_meter")
    async def metered(tokens: Any, payment: Payment) -> str:
        runs.append("metered")
        payment.report(input_tokens=tokens, output_tokens=2)
        return "counted"

    @server.tool()
    @paid("slow_settlement")
    async def late() -> str:
        runs.append("late")
        return "worth the wait"

    @server.tool()
    @paid("failing_settlement")
    async def never() -> str:
        runs.append("never")
        return "not for you"

    @server.tool()
    @paid("free_notes")
    async def notes() -> str:
        runs.append("notes")
        return "free"

    @server.tool()
    @paid("daily_report")
    async def fail(how: str) -> int:
        runs.append(how)
        if how == "deliberately":
            raise ToolError("no such city")
        if how == "crash":
            raise RuntimeError("a secret of the seller's")
        if how == "protocol":
            raise MCPError(-32050, "not now")
        if how == "result":
            content = TextContent(type="text", text="out of order")
            return CallToolResult(content=[content], is_error=True, _meta={RECEIPT: "own"})  # type: ignore[return-value]
        return "not a number"  # type: ignore[return-value]

    @server.tool()
    @paid("daily_report")
    async def slow() -> str:
        runs.append("slow")
        while not shop.may_end:
            await anyio.sleep(0.01)
        return "done"

    @server.tool()
    @paid("daily_report", max_work_seconds=0.2)
    async def hurried() -> str:
        runs.append("hurried")
        await anyio.sleep(30)
        runs.append("too late")
        return "too late"

    @server.tool()
    @paid("daily_report", max_result_bytes=400)
    async def large(size: int) -> str:
        runs.append("large")
        return "x" * size

    @server.tool()
    @paid("daily_report")
    async def questioned(ctx: Context) -> str:
        runs.append("questioned")
        answer = await ctx.elicit("Which size?", Choice)
        await ctx.report_progress(1, 2)
        return repr(getattr(answer, "data", None))

    @server.tool()
    @paid("free_notes")
    async def questioned_for_nothing(ctx: Context) -> str:
        answer = await ctx.elicit("Which size?", Choice)
        return repr(getattr(answer, "data", None))

    @server.tool(structured_output=False)
    @paid("daily_report")
    async def question() -> Any:
        runs.append("question")
        return InputRequiredResult(input_requests={}, request_state="sunny for 42 days")

    @server.tool()
    @paid("daily_report")
    async def asking(choice: Annotated[Choice, Resolve(choose)]) -> str:
        runs.append(f"asking {choice.size}")
        return choice.size

    @server.tool()
    @paid("daily_report")
    async def asking_twice(
        choice: Annotated[Choice, Resolve(choose)], shade: Annotated[Shade, Resolve(choose_shade)]
    ) -> str:
        runs.append(f"asking {choice.size} {shade.shade}")
        return f"{choice.size} {shade.shade}"

    @server.tool()
    @paid("daily_report")
    async def talking(ctx: Context) -> str:
        await talk(ctx)
        runs.append("talked")
        while not shop.may_end:
            await anyio.sleep(0.01)
        return "sunny"

    @server.tool()
    async def listening(ctx: Context) -> str:
        shop.sessions.append(ctx.session)
        return "done"

    @server.tool()
    @paid("daily_report")
    async def broadcasting() -> str:
        params = LoggingMessageNotificationParams(level="info", data="sunny for 42 days")
        for session in shop.sessions:
            await session.send_notification(LoggingMessageNotification(params=params))
        runs.append("talked")
        return "sunny"

    @server.tool()
    @paid("free_notes")
    async def chatting_for_nothing(ctx: Context) -> str:
        await talk(ctx)
        return "done"

    @server.tool()
    async def chatting(ctx: Context) -> str:
        await talk(ctx)
        return "done"

    @server.tool()
    async def echo(text: str) -> str:
        return text


async def talk(ctx: Context) -> None:
    """Say the result by every way there is beside it."""
    await ctx.report_progress(42, 43, "sunny")
    for text, related in (("sunny for 42 days", ctx.request_id), ("sunny for all of 42 days", None)):
        params = LoggingMessageNotificationParams(level="info", data=text)
        await ctx.session.send_notification(LoggingMessageNotification(params=params), related)
    await ctx.session.send_resource_updated("report://sunny/42")
