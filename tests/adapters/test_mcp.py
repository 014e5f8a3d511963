"""The paywall of an MCP server, asked by the SDK's own client: every situation that it translates."""

import json
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import wraps
from typing import Any, NoReturn

import anyio
import pytest
from mcp.client import Client
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from faregate.core.recovery import SweepReport
from faregate.mcp import add_paywall, paid
from faregate.mcp.requests import serialize_bound_arguments
from faregate.x402.payment_identifier import EXTENSION
from tests.adapters.mcp_shop import PAYMENT, Shop, make_shop, receipt_of, said, text_of
from tests.support.faulty_service import FaultyService, answers, lost_after, lost_before

pytestmark = pytest.mark.anyio

MODERN, LEGACY = "2026-07-28", "legacy"


on_every_loop = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faregate.core.completion.COMPLETE_PAUSES", (0.02, 0.05))


@pytest.fixture
def shop() -> Generator[Shop]:
    service = FaultyService()
    with service.serving() as url:
        yield make_shop(service, url)


async def test_a_call_without_a_payment_learns_what_to_pay(shop: Shop) -> None:
    async with shop.connect() as buyer:
        asked = await buyer.call("report", {"city": "Oslo"})
    assert said(asked)["resource"]["url"] == "https://seller.example/mcp/tools/report"
    assert (len(asked.content), receipt_of(asked), shop.runs) == (1, None, [])


async def test_a_price_describes_the_tool_as_the_server_does(shop: Shop) -> None:
    def weather() -> str:
        """The weather of one city.

        Not for payers.
        """
        return "sun"

    shop.server.tool()(paid("daily_report")(weather))
    shop.server.tool("other", description="As the tool says.")(paid("daily_report")(weather))
    async with shop.connect() as buyer:
        found = [said(await buyer.call(name))["resource"]["description"] for name in ("weather", "other")]
    assert found == ["The weather of one city.", "As the tool says."]


async def test_what_to_pay_is_structured_only_where_no_schema_is_held_against_it(shop: Shop) -> None:
    async with shop.connect() as buyer:
        await buyer.client.list_tools()
        with_schema, without = await buyer.call("report"), await buyer.call("plain")
    assert with_schema.structured_content is None
    assert without.structured_content == said(without)


@on_every_loop
async def test_a_paid_result_leaves_with_its_receipt(shop: Shop) -> None:
    async with shop.connect() as buyer:
        result = await buyer.buy("report", {"city": "Bergen"})
    assert (result.is_error, result.structured_content) == (False, {"result": "sunny in Bergen"})
    assert receipt_of(result)["success"]
    assert (shop.runs, shop.statuses) == (["Bergen"], ["succeeded"])


async def test_the_same_payment_again_gets_the_same_result(shop: Shop) -> None:
    async with shop.connect() as buyer:
        payment = await buyer.ask("report", {"city": "Oslo"})
        first = await buyer.call("report", {"city": "Oslo"}, payment)
        reordered = dict(reversed(payment.items())) | {"extensions": None}
        again = await buyer.call("report", {"city": "Oslo"}, reordered)
        as_text = await buyer.call("report", {"city": "Oslo"}, json.dumps(payment))
    async with shop.connect(mode=LEGACY) as other:
        elsewhere = await other.call("report", {"city": "Oslo"}, payment)
    assert first == again == as_text
    assert (elsewhere.content, receipt_of(elsewhere)) == (first.content, receipt_of(first))
    assert (shop.runs, shop.service.count("complete")) == (["Oslo"], 1)


@pytest.mark.parametrize(
    ("tool", "arguments"), [("report", {"city": "Rome"}), ("report", {}), ("plain", {}), ("slow", {})]
)
async def test_a_used_payment_fetches_nothing_else(shop: Shop, tool: str, arguments: dict[str, str]) -> None:
    async with shop.connect() as buyer:
        payment = await buyer.ask("report", {"city": "Oslo"})
        await buyer.call("report", {"city": "Oslo"}, payment)
        other = await buyer.call(tool, arguments, payment)
    assert (said(other)["code"], said(other)["http_status"]) == ("proof_already_used", 409)
    assert shop.runs == ["Oslo"]


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("deliberately", "Error executing tool fail: no such city"),
        ("crash", "Error executing tool fail"),
        ("result", "out of order"),
        ("output", "Error executing tool fail"),
    ],
)
async def test_a_failed_tool_is_not_charged_and_its_error_arrives(shop: Shop, how: str, text: str) -> None:
    async with shop.connect() as buyer:
        result = await buyer.buy("fail", {"how": how})
    assert (result.is_error, text_of(result), receipt_of(result)) == (True, text, None)
    assert (shop.runs, shop.statuses) == ([how], ["failed"])


ERRORS: dict[str, Callable[[str], CallToolResult]] = {
    "answer": lambda text: CallToolResult(content=[TextContent(type="text", text=text)], is_error=True),
    "tool error": lambda text: raise_it(ToolError(text)),
    "protocol error": lambda text: raise_it(MCPError(code=-32000, message=text)),
}


def raise_it(error: Exception) -> NoReturn:
    raise error


@pytest.mark.parametrize("make_error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("place", ["decorator", "middleware"])
async def test_an_error_that_is_made_of_a_result_does_not_carry_it(
    shop: Shop, place: str, make_error: Callable[[str], CallToolResult]
) -> None:
    @paid("daily_report")
    async def sunny() -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="It will be sunny all day.")])

    @wraps(sunny)
    async def decorated() -> CallToolResult:
        answer = await sunny()
        return answer if answer.is_error else make_error(text_of(answer))

    async def change(ctx: Any, call_next: Any) -> Any:
        answer = await call_next(ctx)
        return (
            make_error(str(answer)) if ctx.method == "tools/call" and "sunny all" in str(answer) else answer
        )

    shop.server.add_tool(decorated if place == "decorator" else sunny, name="sunny")
    if place == "middleware":
        shop.server.middleware.append(change)
    async with shop.connect() as buyer:
        result = await buyer.buy("sunny")
    assert (said(result)["code"], receipt_of(result)) == ("not_billable", None)
    assert "sunny all" not in result.model_dump_json()
    assert shop.statuses == ["failed"]


async def test_a_protocol_error_is_failed_work(shop: Shop) -> None:
    async with shop.connect() as buyer:
        with pytest.raises(MCPError, match="not now"):
            await buyer.buy("fail", {"how": "protocol"})
    assert shop.statuses == ["failed"]


@pytest.mark.parametrize(
    "tool", ["plain_unsendable", "structured_unsendable", "number_unsendable", "meta_unsendable"]
)
async def test_a_result_that_cannot_be_sent_is_not_charged(shop: Shop, tool: str) -> None:
    """The SDK writes results as UTF-8 after the payment, and a lone surrogate has no form there."""
    async with shop.connect() as buyer:
        with suppress(MCPError):  # the answer says no more than that the tool failed
            assert (await buyer.buy(tool)).is_error
    assert shop.runs == [tool]
    assert shop.statuses == ["failed"]


async def test_a_null_that_the_output_schema_allows_is_sold(shop: Shop) -> None:
    async with shop.connect() as buyer:
        assert (await buyer.buy("nullable")).structured_content == {"degrees": None}
    assert shop.statuses == ["succeeded"]


async def test_after_a_failure_the_same_payment_is_answered_with_a_new_price(shop: Shop) -> None:
    async with shop.connect() as buyer:
        payment = await buyer.ask("fail", {"how": "crash"})
        await buyer.call("fail", {"how": "crash"}, payment)
        again = await buyer.call("fail", {"how": "crash"}, payment)
    assert said(again)["accepts"]
    assert shop.runs == ["crash"]


async def test_wrong_arguments_cost_nothing_and_use_nothing_up(shop: Shop) -> None:
    async with shop.connect() as buyer:
        payment = await buyer.ask("large", {"size": 1})
        wrong = await buyer.call("large", {"size": "many"}, payment)
        right = await buyer.call("large", {"size": 1}, payment)
    assert "validation error" in text_of(wrong)
    assert not right.is_error
    assert (shop.runs, shop.statuses) == (["large"], ["succeeded"])


@pytest.mark.parametrize(("tokens", "status"), [(7, "succeeded"), ("7", "succeeded"), (0.5, "failed")])
async def test_reported_values_are_sent_and_wrong_ones_are_failed_work(
    shop: Shop, tokens: Any, status: str
) -> None:
    async with shop.connect() as buyer:
        result = await buyer.buy("metered", {"tokens": tokens})
    assert (result.is_error, shop.statuses) == (status == "failed", [status])


@on_every_loop
async def test_a_threaded_tool_is_sold(shop: Shop) -> None:
    async with shop.connect() as buyer:
        result = await buyer.buy("plain")
    assert (text_of(result), result.structured_content, shop.statuses) == ("sunny", None, ["succeeded"])


async def test_a_free_offer_and_a_free_tool_cost_nothing(shop: Shop) -> None:
    async with shop.connect() as buyer:
        notes, echo = await buyer.call("notes"), await buyer.call("echo", {"text": "hi"})
        paid_for_nothing = await buyer.call("echo", {"text": "hi"}, {"x402Version": 2})
    assert (text_of(notes), text_of(echo), text_of(paid_for_nothing)) == ("free", "hi", "hi")
    assert (receipt_of(notes), shop.service.count("complete")) == (None, 0)


@on_every_loop
async def test_while_it_is_in_work_the_same_payment_is_asked_to_come_back(shop: Shop) -> None:
    results = list[Any]()
    async with shop.connect() as buyer, anyio.create_task_group() as tasks:
        payment = await buyer.ask("slow")

        async def first() -> None:
            results.append(await buyer.call("slow", {}, payment))

        tasks.start_soon(first)
        await until(lambda: shop.runs == ["slow"])
        again = await buyer.call("slow", {}, payment)
        shop.may_end = True
    assert (said(again)["code"], said(again)["retry_after"]) == ("payment_in_progress", 1)
    assert "accepts" not in said(again)
    assert (text_of(results[0]), shop.runs) == ("done", ["slow"])


@on_every_loop
async def test_while_it_is_in_work_a_new_payment_for_the_same_call_is_not_charged(shop: Shop) -> None:
    results = list[Any]()
    async with shop.connect() as buyer, anyio.create_task_group() as tasks:
        payment, another = await buyer.ask("slow"), await buyer.ask("slow")

        async def first() -> None:
            results.append(await buyer.call("slow", {}, payment))

        tasks.start_soon(first)
        await until(lambda: shop.runs == ["slow"])
        again = await buyer.call("slow", {}, another)
        shop.may_end = True
    assert said(again)["code"] == "payment_in_progress"
    assert (text_of(results[0]), shop.runs) == ("done", ["slow"])
    assert sorted(shop.statuses) == ["failed", "succeeded"]


async def test_a_named_call_is_made_once() -> None:
    service = FaultyService()
    with service.serving() as url:
        shop = make_shop(service, url, payment_identifier="required")
        async with shop.connect() as buyer:
            asked = said(await buyer.call("report"))
            assert asked["extensions"][EXTENSION]["info"] == {"required": True}
            unnamed = await buyer.buy("report")
            assert said(unnamed)["code"] == "payment_identifier_required"
            named = {EXTENSION: {"info": {"required": True, "id": "pay_0123456789abcdef"}}}
            payments = [{**await buyer.ask("report"), "extensions": named} for _ in range(2)]
            first, second = [await buyer.call("report", payment=payment) for payment in payments]
            assert first.content == second.content
            other = {**await buyer.ask("report", {"city": "Rome"}), "extensions": named}
            refused = await buyer.call("report", {"city": "Rome"}, other)
            assert said(refused)["code"] == "payment_identifier_reused"
        assert len(shop.runs) == 1
        assert sorted(shop.statuses) == ["failed", "failed", "succeeded"]


@on_every_loop
async def test_a_call_that_its_client_gives_up_is_finished_and_can_be_fetched(shop: Shop) -> None:
    async with shop.connect(mode=LEGACY) as buyer:  # over streams: else the client would run the tool itself
        payment = await buyer.ask("slow")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(buyer.call, "slow", {}, payment)
            await until(lambda: shop.runs == ["slow"])
            tasks.cancel_scope.cancel()  # the SDK's client sends notifications/cancelled
        shop.may_end = True
        await until(lambda: shop.statuses == ["succeeded"])
        result = await fetch(buyer, "slow", payment)
    assert (text_of(result), shop.runs) == ("done", ["slow"])


@on_every_loop
async def test_a_client_who_leaves_fetches_the_result_over_another_connection(shop: Shop) -> None:
    async with shop.connect() as buyer:
        payment = await buyer.ask("slow")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(buyer.call, "slow", {}, payment)
            await until(lambda: shop.runs == ["slow"])
            shop.may_end = True
            tasks.cancel_scope.cancel()
    async with shop.connect() as buyer:
        result = await fetch(buyer, "slow", payment)
    assert (text_of(result), shop.runs, shop.statuses) == ("done", ["slow"], ["succeeded"])


@on_every_loop
async def test_work_that_takes_too_long_is_not_charged(shop: Shop) -> None:
    async with shop.connect() as buyer:
        result = await buyer.buy("hurried")
    assert said(result)["http_status"] == 500
    assert (shop.runs, shop.statuses) == (["hurried"], ["failed"])


async def test_a_result_that_is_too_large_is_not_charged(shop: Shop) -> None:
    async with shop.connect() as buyer:
        result = await buyer.buy("large", {"size": 1000})
    assert "accepts" not in said(result)
    assert shop.statuses == ["failed"]


async def test_a_payment_that_settles_late_is_waited_for(shop: Shop) -> None:
    async with shop.connect() as buyer:
        payment = await buyer.ask("late")
        results = [await buyer.call("late", {}, payment) for _ in range(3)]
    waiting = [said(one) for one in results[:2]]
    assert [(one["http_status"], one["code"]) for one in waiting] == [(202, "payment_settling")] * 2
    assert "accepts" not in str(waiting)
    assert (text_of(results[2]), shop.runs) == ("worth the wait", ["late"])


async def test_a_payment_that_fails_is_answered_with_a_new_price_and_what_became_of_it(shop: Shop) -> None:
    async with shop.connect() as buyer:
        payment = await buyer.ask("never")
        assert said(await buyer.call("never", {}, payment))["http_status"] == 202
        result = await buyer.call("never", {}, payment)
    assert said(result)["accepts"]
    assert "nothing was charged" in json.loads(result.content[1].text)["message"]  # type: ignore[union-attr]
    assert "not for you" not in str(result)


async def test_an_unconfirmed_completion_holds_the_result_back(shop: Shop) -> None:
    shop.service.fails("complete", *[lost_after] * 3)
    async with shop.connect() as buyer:
        payment = await buyer.ask("report")
        held = await buyer.call("report", {}, payment)
        assert (said(held)["code"], receipt_of(held)) == ("payment_unconfirmed", None)
        result = await buyer.call("report", {}, payment)
    assert (text_of(result), shop.runs) == ("sunny in Oslo", ["Oslo"])


async def test_a_sweep_finishes_what_was_left_and_its_result_is_fetched(shop: Shop) -> None:
    shop.service.fails("complete", *[lost_before] * 3)
    async with shop.connect() as buyer:
        payment = await buyer.ask("report")
        await buyer.call("report", {}, payment)
    shop.clock.now += 60
    assert (await shop.paywall.asweep()).settled == 1
    async with shop.connect() as buyer:
        result = await buyer.call("report", {}, payment)
    assert (text_of(result), shop.runs, shop.statuses) == ("sunny in Oslo", ["Oslo"], ["succeeded"])


async def test_a_service_that_is_down_sells_nothing(shop: Shop) -> None:
    shop.service.fails("access", answers(503), answers(503))
    async with shop.connect() as buyer:
        result = await buyer.call("report")
    assert (said(result)["http_status"], said(result)["code"]) == (503, "payment_service_unavailable")
    assert shop.runs == []


@pytest.mark.parametrize("payment", [{}, {"x402Version": 2}, "", "garbage", 7, [], {"deep": "x" * 20_000}])
async def test_what_is_no_payment_buys_nothing(shop: Shop, payment: Any) -> None:
    async with shop.connect() as buyer:
        result = await buyer.call("report", {}, payment)
    assert result.is_error
    assert receipt_of(result) is None
    assert (shop.runs, shop.statuses) == ([], [])


@on_every_loop
async def test_a_paywall_is_closed_after_its_sweep(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that has begun may be asking the service about a payment."""
    events: list[str] = []
    has_begun = anyio.Event()

    async def sweep(_limit: int, should_stop: Callable[[], bool]) -> SweepReport:
        has_begun.set()
        while not should_stop():
            await anyio.sleep(0.001)
        await anyio.sleep(0.02)
        events.append("swept")
        return SweepReport()

    async def close() -> None:
        events.append("closed")

    monkeypatch.setattr(shop.paywall, "asweep", sweep)
    monkeypatch.setattr(shop.paywall, "aclose", close)
    server = MCPServer("swept")
    add_paywall(server, shop.paywall, sweep_every=0.01)
    async with Client(server):
        await has_begun.wait()
    assert events == ["swept", "closed"]


async def test_only_a_tool_that_is_not_charged_for_may_ask_its_client(shop: Shop) -> None:
    """A question leaves before the payment is proven, and can carry the result."""
    asked: list[str] = []

    async def answer(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"size": "small"})

    async with shop.connect(mode=LEGACY, elicitation_callback=answer) as buyer:
        result = await buyer.buy("questioned")
        assert (result.is_error, receipt_of(result), asked, shop.statuses) == (True, None, [], ["failed"])
        free = await buyer.call("questioned_for_nothing")
    assert (text_of(free), asked) == ("Choice(size='small')", ["Which size?"])


async def test_a_paid_tool_that_returns_a_question_gives_nothing_away(shop: Shop) -> None:
    """Where its annotations do not say so, only the call shows it."""
    async with shop.connect(mode=MODERN) as buyer:
        with pytest.raises(MCPError) as raised:
            await buyer.buy("question")
    assert "sunny" not in str(raised.value.error)
    assert (shop.runs, shop.statuses) == (["question"], ["failed"])


async def test_questions_are_asked_before_the_price_and_bound_to_the_payment(shop: Shop) -> None:
    sizes = iter(["small", "small", "small", "large"])

    async def answer(_context: Any, _params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"size": next(sizes)})

    async with shop.connect(mode=MODERN, elicitation_callback=answer) as buyer:
        payment = await buyer.ask("asking")
        first, again = await buyer.call("asking", {}, payment), await buyer.call("asking", {}, payment)
        other = await buyer.call("asking", {}, payment)
    assert (text_of(first), first) == ("small", again)
    assert said(other)["code"] == "proof_already_used"
    assert (shop.runs, shop.statuses) == (["asking small"], ["succeeded"])


async def test_answers_to_earlier_questions_are_bound_to_the_payment(shop: Shop) -> None:
    """The second round of questions moves the answer to the first into the state of the call."""
    sizes = iter(["small", "small", "small", "large"])

    async def answer(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        is_first = params.message == "Which size?"
        return ElicitResult(action="accept", content={"size": next(sizes)} if is_first else {"shade": "red"})

    async with shop.connect(mode=MODERN, elicitation_callback=answer) as buyer:
        payment = await buyer.ask("asking_twice")
        first, again = [await buyer.call("asking_twice", {}, payment) for _ in range(2)]
        other = await buyer.call("asking_twice", {}, payment)
    assert (text_of(first), first) == ("small red", again)
    assert said(other)["code"] == "proof_already_used"
    assert (shop.runs, shop.statuses) == (["asking small red"], ["succeeded"])


@pytest.mark.parametrize(
    "state", [None, 1, "", "sealed", "[]", "{}", '{"outcomes": 1}', '{"outcomes": {"key": 1}}', "[" * 100_000]
)
def test_a_state_without_answers_binds_nothing(state: Any) -> None:
    assert serialize_bound_arguments(
        {"arguments": {"city": "Oslo"}, "requestState": state}
    ) == serialize_bound_arguments({"arguments": {"city": "Oslo"}})


async def test_the_payment_is_no_argument_of_the_tool(shop: Shop) -> None:
    async with shop.connect() as buyer:
        tools = {one.name: one for one in (await buyer.client.list_tools()).tools}
    assert set(tools["report"].input_schema["properties"]) == {"city"}
    assert tools["report"].output_schema is not None
    assert PAYMENT not in str(tools)


async def fetch(buyer: Any, name: str, payment: Any) -> Any:
    """The result, once nobody works on it any more."""
    with anyio.fail_after(30):
        while True:
            result = await buyer.call(name, {}, payment)
            if not result.is_error:
                return result
            assert "accepts" not in said(result)
            await anyio.sleep(0.02)


async def until(is_so: Any) -> None:
    with anyio.fail_after(30):
        while not is_so():
            await anyio.sleep(0.01)


async def test_the_list_of_tools_has_the_prices_asked_for_once(shop: Shop) -> None:
    async with shop.connect() as buyer:
        for _ in range(2):
            tools = {tool.name: tool for tool in (await buyer.client.list_tools()).tools}
    priced = {name: (tool.meta or {}).get("x-payment-info") for name, tool in tools.items()}
    assert priced["report"] == {
        "protocols": [{"x402": {}}],
        "sells": "daily_report",
        "asset": "USDC",
        "price": {"mode": "fixed", "currency": "USD", "amount": "0.05"},
        "network": "eip155:84532",
    }
    assert priced["echo"] is None
    sold = {info["sells"] for info in priced.values() if info}
    assert shop.service.asked.count("access") == len(sold)


async def test_a_list_of_tools_does_not_wait_for_a_service_that_is_down(shop: Shop) -> None:
    shop.service.delay = 20
    async with shop.connect() as buyer:
        for _ in range(2):
            tools = (await buyer.client.list_tools()).tools
    assert {"sells": "daily_report", "protocols": [{"x402": {}}]} in [
        (tool.meta or {}).get("x-payment-info") for tool in tools
    ]
    assert shop.service.asked == ["contracts"]
