"""An MCP server over HTTP and over stdio: whose result it is, who left, and what is left after a crash."""

import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from starlette.middleware.sessions import SessionMiddleware

from faregate.emulator import TEST_KEY, Wallet
from faregate.mcp import paid
from tests.adapters.mcp_shop import Buyer, Shop, make_shop, said, text_of
from tests.adapters.test_mcp import LEGACY, MODERN, fetch, until
from tests.servers.http import serving
from tests.support.faulty_service import FaultyService
from tests.support.processes import environment

pytestmark = pytest.mark.anyio

ALICE, MALLORY = "Bearer alice-0123456789abcdef", "Bearer mallory-0123456789abcdef"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", name="served")
def _served() -> Generator[tuple[Shop, str]]:
    service = FaultyService()
    with service.serving() as url:
        shop = make_shop(service, url)
        with serving(shop.server.streamable_http_app()) as address:
            yield shop, f"{address}/mcp"


@asynccontextmanager
async def connected(url: str, mode: Any, authorization: str) -> AsyncGenerator[Buyer]:
    async with (
        create_mcp_http_client(headers={"Authorization": authorization}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield Buyer(client, Wallet())


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_result_is_delivered_again_to_the_same_client_only(
    served: tuple[Shop, str], mode: Any
) -> None:
    shop, url = served
    runs = len(shop.runs)
    async with connected(url, mode, ALICE) as alice:
        payment = await alice.ask("report", {"city": mode})
        first = await alice.call("report", {"city": mode}, payment)
    async with connected(url, mode, ALICE) as alice:
        again = await alice.call("report", {"city": mode}, payment)
    async with connected(url, mode, MALLORY) as mallory:
        stolen = await mallory.call("report", {"city": mode}, payment)
    assert text_of(first) == text_of(again) == f"sunny in {mode}"
    assert said(stolen)["code"] == "proof_already_used"
    assert shop.runs[runs:] == [mode]


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_client_who_hangs_up_fetches_the_result_later(served: tuple[Shop, str], mode: Any) -> None:
    shop, url = served
    shop.may_end, runs = False, len(shop.runs)
    async with connected(url, mode, ALICE) as alice:
        payment = await alice.ask("slow")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(alice.call, "slow", {}, payment)
            await until(lambda: shop.runs[runs:] == ["slow"])
            tasks.cancel_scope.cancel()
    async with connected(url, mode, ALICE) as alice:
        assert said(await alice.call("slow", {}, payment))["code"] == "payment_in_progress"
        shop.may_end = True
        result = await fetch(alice, "slow", payment)
    assert (text_of(result), shop.runs[runs:]) == ("done", ["slow"])


@pytest.mark.parametrize(("sells", "leaves"), [("daily_report", True), ("slow_settlement", False)])
async def test_what_a_paid_tool_writes_into_its_request_leaves_with_the_result(
    sells: str, leaves: bool
) -> None:
    with FaultyService().serving() as url:
        shop = make_shop(FaultyService(), url)

        @shop.server.tool()
        @paid(sells)
        def remember(ctx: Context) -> str:
            request = ctx.request_context.request
            assert request is not None
            request.session["bought"] = request.state.bought = "sunny"
            return "sunny"

        states, tools = [], shop.server.streamable_http_app(stateless_http=True, json_response=True)

        async def keep_state(scope: Any, receive: Any, send: Any) -> None:
            await tools(scope, receive, send)
            states.append(scope.get("state", {}).get("bought"))

        sent = []

        async def keep_cookies(response: httpx2.Response) -> None:
            sent.extend(response.headers.get_list("set-cookie"))

        with serving(SessionMiddleware(keep_state, secret_key="0123456789abcdef")) as address:
            http = httpx2.AsyncClient(event_hooks={"response": [keep_cookies]})
            async with http, Client(streamable_http_client(f"{address}/mcp", http_client=http)) as client:
                result = await Buyer(client, shop.wallet).buy("remember")

    assert result.is_error is not leaves
    assert (bool(sent), "sunny" in states) == (leaves, leaves)


DYING = """
import os, sys, time
from mcp.server import MCPServer
from faregate import Paywall
from faregate.journals.sqlite import SqliteJournal
from faregate.mcp import add_paywall, paid

journal, ago, dies = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "dies"

def make(context):
    clock = lambda: time.time() - ago
    return SqliteJournal(journal, keys=[bytes(32)], seller=context.seller, policy=context.policy, clock=clock)

server = MCPServer("shop")
add_paywall(server, Paywall(journal=make))

@server.tool()
@paid("daily_report")
def report() -> str:
    if dies:
        os._exit(1)
    return "sunny"

server.run()
"""


async def test_a_server_that_dies_in_a_tool_charges_nothing_and_the_next_one_says_so(tmp_path: Path) -> None:
    service = FaultyService()
    with service.serving() as url:

        def start(ago: float, how: str) -> Client:
            env = environment(FAREGATE_BASE_URL=url, FAREGATE_API_KEY=TEST_KEY)
            arguments = ["-c", DYING, str(tmp_path / "journal.db"), str(ago), how]
            return Client(StdioServerParameters(command=sys.executable, args=arguments, env=env))

        async with start(3600, "dies") as client:  # by the clock of the next one, its lease is over
            buyer = Buyer(client, Wallet())
            payment = await buyer.ask("report")
            with pytest.raises(MCPError):
                await buyer.call("report", {}, payment)
        async with start(0, "lives") as client:
            buyer = Buyer(client, buyer.wallet)
            again = await buyer.call("report", {}, payment)
            bought = await buyer.buy("report")
    assert said(again)["accepts"]
    assert text_of(bought) == "sunny"
    assert [one["status"] for one in service.list_transactions()] == ["succeeded", "failed"]
