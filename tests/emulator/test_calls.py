"""The journal of calls: what came, in order and correlated; waiting for it; what was expected of it."""

import threading
import time
from collections.abc import Callable

import anyio
import pytest

from faregate.emulator import Emulator, Fault, ManualClock
from faregate.emulator.expectations import ExpectationFailed, NoSuchCall
from faregate.errors import ConfigurationError

from .load import Seller


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    return Emulator(clock=clock)


@pytest.fixture
def seller(clock: ManualClock) -> Seller:
    return Seller.trusted()


def test_calls_are_in_order_with_what_they_are_about(seller: Seller) -> None:
    seller.instructions()
    bought = seller.authorize()
    seller.complete(bought)
    seller.call("GET", "/transactions")
    calls = seller.emulator.calls()

    assert [(call.number, call.operation, call.status) for call in calls] == [
        (1, "access", 402),
        (2, "access", 200),
        (3, "complete", 200),
        (4, "transactions", 200),
    ]
    assert [call.resource for call in calls] == ["text_summary"] * 3 + [None]
    assert {call.environment for call in calls} == {"test"}
    assert [call.transaction for call in calls] == [None, bought[0], bought[0], None]


def test_calls_are_found_by_any_of_it(seller: Seller) -> None:
    first, second = seller.authorize(), seller.authorize()
    seller.complete(first)
    seller.fail(second)
    look = seller.emulator.calls
    payers = [call.payer for call in look("access")]

    assert [call.number for call in look("complete")] == [3, 4]
    assert [call.number for call in look(transaction=first[0])] == [1, 3]
    assert [call.number for call in look(payer=str(payers[1]).upper().replace("X", "x"))] == [2, 4]
    assert [call.number for call in look("access", resource="text_summary", status=200)] == [1, 2]
    assert look("access", resource="daily_report") == look("complete", status=402) == []
    assert len(look()) == len(look(method="post")) == 4


def test_a_test_payer_is_found_by_name(emulator: Emulator) -> None:
    assert emulator.calls(payer="slow") == []
    with pytest.raises(ConfigurationError, match="no operation 'compelte'; there are access, complete"):
        emulator.calls("compelte")


def test_payment_headers_are_decoded(seller: Seller) -> None:
    seller.instructions()
    seller.sell()
    asked, authorized, completed = seller.emulator.calls()

    assert asked.proof is None
    assert asked.instructions is not None
    assert asked.instructions["accepts"][0]["amount"] == "10000"
    assert authorized.proof is not None
    assert authorized.proof["x402Version"] == 2
    assert completed.payment_response is not None
    assert completed.payment_response["success"] is True


def test_what_went_wrong_is_written_down_with_it(seller: Seller) -> None:
    seller.emulator.faults.add(Fault(kind="silence", when="after", operation="complete"))
    bought = seller.authorize()
    seller.complete(bought)
    seller.complete(bought)

    assert [call.fault is None for call in seller.emulator.calls("complete")] == [False, True]
    assert [call.number for call in seller.emulator.calls("complete", fault=None)] == [3]


def test_a_call_shows_itself_without_its_secrets(seller: Seller) -> None:
    seller.emulator.faults.add(Fault(kind="silence", when="after", operation="access"))
    transaction, proof = seller.authorize()
    seller.complete((transaction, proof))
    accessed, completed = map(repr, seller.emulator.calls())

    assert accessed.startswith("<1: POST /merchant/v1/access -> 200 · resource text_summary")
    assert f"transaction {transaction}" in accessed
    assert "fault silence" in accessed
    assert "delivered silence" in accessed
    assert completed.count(transaction) == 1
    for secret in ("svc_test", proof[:40]):
        assert secret not in accessed + completed


# Waiting


def test_waiting_ends_when_the_call_comes(seller: Seller) -> None:
    thread = threading.Timer(0.05, seller.sell)
    start = time.monotonic()
    thread.start()
    [call] = seller.emulator.wait_for("complete", status=200, timeout=10)
    thread.join()

    assert call.operation == "complete"
    assert time.monotonic() - start < 5


def test_what_came_before_counts(seller: Seller) -> None:
    seller.sell()
    seller.sell()

    assert len(seller.emulator.wait_for("complete", count=2, timeout=0)) == 2
    assert len(seller.emulator.wait_for(count=4, timeout=0)) == 4


def test_waiting_in_vain_tells_what_came_instead(seller: Seller) -> None:
    with pytest.raises(NoSuchCall, match=r"complete\(\) came 0 of 1 times in 0 s; there was no call"):
        seller.emulator.wait_for("complete", timeout=0)
    seller.authorize()

    with pytest.raises(NoSuchCall, match=r"complete\(status=200\) came 0 of 2 (.|\n)*<1: POST .*/access"):
        seller.emulator.wait_for("complete", count=2, timeout=0.01, status=200)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_awaiting_lets_the_others_work(backend: str, seller: Seller) -> None:
    async def both() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.02)
            seller.sell()
        with pytest.raises(NoSuchCall):
            await seller.emulator.await_for("execution", timeout=0.01)

    async def wait() -> None:
        assert len(await seller.emulator.await_for("complete", timeout=10)) == 1

    anyio.run(both, backend=backend)


# Expectations


def told(check: Callable[[], None]) -> str:
    with pytest.raises(ExpectationFailed) as found:
        check()
    return str(found.value)


def test_expected_calls_are_let_by(seller: Seller) -> None:
    with seller.emulator.strict():
        seller.emulator.expect("access", status=200)
        seller.emulator.expect("complete", times=None)
        seller.call("GET", "/contracts")
        seller.sell()
    with seller.emulator.strict():
        pass


def test_an_unexpected_call_fails_with_the_nearest_expectation(seller: Seller) -> None:
    def scenario() -> None:
        with seller.emulator.strict():
            seller.emulator.expect("complete", resource="text_summary", status=402)
            seller.emulator.expect("access", resource="daily_report", status=200)
            seller.authorize()

    text = told(scenario)

    assert "not expected:\n  <1: POST /merchant/v1/access -> 200" in text
    assert (
        "nearest is access(resource='daily_report', status=200): "
        "resource 'text_summary' instead of 'daily_report'" in text
    )
    assert "did not come:\n  complete(resource='text_summary', status=402) came 0 of 1 times" in text


def test_only_calls_of_the_block_count(seller: Seller) -> None:
    seller.sell()

    def scenario() -> None:
        with seller.emulator.strict():
            seller.emulator.expect("complete")

    assert "complete() came 0 of 1 times" in told(scenario)


def test_a_call_too_often_is_wrong_without_strict_too(seller: Seller) -> None:
    seller.emulator.expect("complete", times=1)
    seller.sell()
    seller.sell()

    text = told(seller.emulator.assert_expected)

    assert text.count("<") == 1
    assert "nearest is complete(), expected 1 times" in text
    seller.emulator.assert_expected()


def test_a_call_may_be_expected_not_to_come(seller: Seller) -> None:
    seller.emulator.expect("complete", times=0)
    seller.authorize()
    seller.emulator.assert_expected()
    seller.emulator.expect("access", times=0)

    assert "expected 0 times" in told(seller.emulator.assert_expected)
    with pytest.raises(ConfigurationError, match="0 times or more, not -1"):
        seller.emulator.expect("access", times=-1)


def test_expectations_share_the_calls_as_well_as_can_be(seller: Seller) -> None:
    """The first call fits both; it must leave the general one to the second."""
    with seller.emulator.strict():
        seller.emulator.expect("access")
        seller.emulator.expect("access", status=402)
        seller.instructions()
        seller.authorize()
    with seller.emulator.strict():
        seller.emulator.expect("access", status=402)
        seller.emulator.expect("access")
        seller.authorize()
        seller.instructions()


def test_what_the_block_raises_comes_first(seller: Seller) -> None:
    def scenario() -> None:
        with seller.emulator.strict():
            seller.emulator.expect("complete")
            raise KeyError

    with pytest.raises(KeyError):
        scenario()
    seller.emulator.assert_expected(strict=True)
