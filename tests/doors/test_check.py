"""`faregate check`: whether a stranger could rebuild a payment that this service settled."""

from contextlib import closing

import pytest

from faregate.emulator import TEST_KEY, Emulator, Fault
from faregate.emulator.server import serve
from faregate.inventory import Listed
from faregate.inventory.asking import describe_instructions
from faregate.inventory.taking import take_stock
from faregate.model import Offer
from faregate.paywall import Paywall

GUESSABLE = Fault(kind="guessable-instructions", times=None)
UNGUESSABLE = "Payment instructions are unguessable: every 402 carries a fresh value in accepts[].extra."


def described(emulator: Emulator, *sells: str) -> list[str]:
    """What is said of this service by an app that sells these things."""
    routes = [Listed(f"/{one}", ("GET",), "shop.a", Offer(one), "paid") for one in sells]
    with (
        serve(emulator) as url,
        closing(Paywall(api_key=TEST_KEY, base_url=url, environ={})) as paywall,
    ):
        return describe_instructions(paywall, take_stock(routes))


def test_fresh_instructions_are_said_to_be_unguessable() -> None:
    assert described(Emulator(), "daily_report", "text_summary") == [UNGUESSABLE]


def test_guessable_instructions_are_told_with_what_to_do() -> None:
    emulator = Emulator()
    emulator.faults.add(GUESSABLE)
    [line] = described(emulator, "daily_report", "text_summary")
    assert line.startswith("Payment instructions can be guessed: two 402s for daily_report are alike.")
    assert line.endswith("Ask the operator of the merchant service for a fresh value in accepts[].extra.")


def test_a_resource_that_is_free_says_nothing_and_leaves_nothing_open() -> None:
    emulator = Emulator(expose_execution_id=True)
    assert described(emulator, "free_notes", "daily_report") == [UNGUESSABLE]
    executions = emulator.export()["test"]["executions"]
    assert [one["metadata"]["response_size_bytes"] for one in executions] == [0, 0]


@pytest.mark.parametrize("sells", ["free_notes", "no_such_thing", "text_summary"])
def test_what_nobody_could_see_is_said_so(sells: str) -> None:
    emulator = Emulator()
    emulator.faults.add(Fault(kind="status", status=503, resource="text_summary", times=None))
    assert described(emulator, sells) == [
        "Whether payment instructions can be guessed is not known: no offer was answered 402."
    ]


def test_nobody_is_asked_without_a_paywall_or_without_an_offer() -> None:
    emulator = Emulator()
    assert describe_instructions(None, take_stock([])) == []
    assert described(emulator) == []
    assert emulator.calls() == []
