"""A tool whose price its arguments choose: nothing is given away whatever the function that chooses does."""

from collections.abc import Generator
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from faregate.errors import ConfigurationError
from faregate.mcp import Payment, list_routes, paid
from faregate.offers import offer
from tests.adapters.mcp_shop import Buyer, Shop, make_shop, receipt_of, said, text_of
from tests.support.faulty_service import FaultyService

pytestmark = pytest.mark.anyio

AMONG = ("daily_report", "text_summary")
KEYS = {"small": "daily_report", "large": "text_summary", "other": "token_meter"}
WRONG = {"other": "offer_not_chosen", "none": "offer_not_chosen", "raise": "", "say": ""}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Prices:
    """What chooses, besides the arguments of a call."""

    today: dict[str, Any] = KEYS


@pytest.fixture
def prices() -> Prices:
    return Prices()


@pytest.fixture
def shop(prices: Prices) -> Generator[Shop]:
    service = FaultyService()
    with service.serving() as url:
        shop = make_shop(service, url)
        add_tools(shop, prices)
        yield shop


def add_tools(shop: Shop, prices: Prices) -> None:
    def choose(size: str) -> Any:
        if size == "raise":
            raise LookupError("a secret of the seller's")
        if size == "say":
            raise ToolError("no such size")
        return prices.today.get(size)

    async def choose_all(ctx: Context, **arguments: str) -> Any:
        await ctx.report_progress(1, 2)
        return choose(arguments["size"])

    @shop.server.tool()
    @paid(choose, among=AMONG)
    async def draw(city: str, payment: Payment, size: str = "small") -> str:
        shop.runs.append(f"{city} {payment.sells}")
        return f"drawn as {payment.sells}"

    @shop.server.tool()
    @paid(choose_all, among=AMONG)
    def draw_all(ctx: Context, city: str, size: str) -> str:
        shop.runs.append(f"{city} {size}")
        return f"drawn {size}"


async def ask_amount(buyer: Buyer, size: str) -> str:
    amount: str = said(await buyer.call("draw", {"city": "Oslo", "size": size}))["accepts"][0]["amount"]
    return amount


@pytest.mark.parametrize("tool", ["draw", "draw_all"])
async def test_each_call_is_sold_as_what_its_arguments_choose(shop: Shop, tool: str) -> None:
    async with shop.connect() as buyer:
        for size in ("small", "large"):
            result = await buyer.buy(tool, {"city": "Oslo", "size": size})
            assert (result.is_error, receipt_of(result)["success"]) == (False, True)
        assert await ask_amount(buyer, "small") != await ask_amount(buyer, "large")
    if tool == "draw":
        assert shop.runs == ["Oslo daily_report", "Oslo text_summary"]
    assert (len(shop.runs), shop.statuses) == (2, ["succeeded", "succeeded"])


async def test_an_argument_that_was_left_out_chooses_by_its_default(shop: Shop) -> None:
    async with shop.connect() as buyer:
        assert text_of(await buyer.buy("draw", {"city": "Oslo"})) == "drawn as daily_report"


async def test_a_payment_for_one_offer_buys_no_other(shop: Shop, prices: Prices) -> None:
    """Not even for the same arguments: the prices changed between two calls."""
    call = {"city": "Oslo", "size": "small"}
    async with shop.connect() as buyer:
        payment = await buyer.ask("draw", call)
        large = await buyer.call("draw", call | {"size": "large"}, payment)
        assert (said(large).get("accepts") is not None, shop.runs) == (True, [])
        first = await buyer.call("draw", call, payment)
        prices.today = {"small": "text_summary"}
        other = await buyer.call("draw", call, payment)
        prices.today = KEYS
        again = await buyer.call("draw", call, payment)
    assert (said(other)["code"], receipt_of(other)) == ("proof_already_used", None)
    assert first == again
    assert shop.runs == ["Oslo daily_report"]


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_choice_gives_nothing_away_and_takes_nothing(shop: Shop, wrong: str) -> None:
    async with shop.connect() as buyer:
        payment = await buyer.ask("draw", {"city": "Oslo", "size": "small"})
        for sent in (None, payment):
            result = await buyer.call("draw", {"city": "Oslo", "size": wrong}, sent)
            assert (result.is_error, receipt_of(result)) == (True, None)
            assert "secret" not in str(result)
            if WRONG[wrong]:
                assert (said(result)["code"], said(result)["http_status"]) == (WRONG[wrong], 500)
            elif wrong == "say":
                assert "no such size" in text_of(result)
        assert (shop.runs, shop.statuses) == ([], [])
        assert not (await buyer.call("draw", {"city": "Oslo", "size": "small"}, payment)).is_error


async def test_what_a_payer_sent_is_not_logged(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    def choose(size: str) -> str:
        return size

    @shop.server.tool()
    @paid(choose, among=AMONG)
    def echoed(size: str) -> str:
        return size

    async with shop.connect() as buyer:
        assert said(await buyer.call("echoed", {"size": "0xsecret"}))["code"] == "offer_not_chosen"
    (told,) = [one.getMessage() for one in caplog.records if "function that chooses" in one.getMessage()]
    assert "a str of 8 characters" in told
    assert "0xsecret" not in caplog.text


def draw(city: str, size: str, payment: Payment) -> str:
    return "drawn"


@pytest.mark.parametrize(
    ("make", "mistake"),
    [
        (lambda: paid(lambda city: "daily_report"), "needs the names"),  # type: ignore[call-overload]
        (
            lambda: paid(lambda colour: "daily_report", among=AMONG)(draw),
            "takes 'colour', which it is not given",
        ),
        (lambda: paid(lambda size, colour=1: "daily_report", among=AMONG)(draw), "can take city, size, by"),
        (lambda: paid(lambda payment: "daily_report", among=AMONG)(draw), "takes 'payment'"),
        (lambda: paid(lambda size, /: "daily_report", among=AMONG)(draw), "by name"),
        (
            lambda: paid(
                lambda size: "daily_report",
                among=("text_summary", offer("daily_report", billable=frozenset((200, 500)))),
            ),
            "leave billable out",
        ),
    ],
)
def test_a_choice_that_cannot_be_made_fails_at_import(make: Any, mistake: str) -> None:
    with pytest.raises(ConfigurationError, match=mistake):
        make()


async def test_every_possibility_is_listed(shop: Shop) -> None:
    assert {*AMONG} <= {one.sells for one in list_routes(shop.server).offers}
