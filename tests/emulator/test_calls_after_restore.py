"""After a restore the calls that it took back are known as such, for with a seed their ids come again."""

import httpx
import pytest

from faregate.emulator import Emulator, ManualClock
from faregate.emulator.assertions import InvariantBroken
from faregate.emulator.server import serve

from .load import Seller, Trusting


@pytest.fixture
def seller() -> Seller:
    return Seller(Emulator(clock=ManualClock(), ledger=Trusting(), seed=7))


def again(seller: Seller, snapshot: str, sold: int = 0) -> None:
    """Everything from the snapshot on once more, proofs and all."""
    seller.emulator.restore(snapshot)
    seller.sold = sold


def undone(emulator: Emulator) -> list[bool]:
    return [call.undone for call in emulator.calls()]


def test_the_calls_of_an_id_that_came_again_are_told_apart(seller: Seller) -> None:
    before = seller.emulator.snapshot()
    first = seller.authorize()
    seller.complete(first)
    again(seller, before)
    second = seller.authorize()

    look = seller.emulator.calls
    assert first == second
    assert [call.number for call in look(transaction=first[0])] == [1, 2, 3]
    assert [call.number for call in look(transaction=first[0], undone=False)] == [3]
    assert "undone by a restore" in repr(look()[0])
    assert "undone" not in repr(look()[2])


def test_who_goes_back_to_what_was_undone_has_its_calls_again(seller: Seller) -> None:
    emulator = seller.emulator
    start = emulator.snapshot()
    seller.authorize()
    one = emulator.snapshot()
    emulator.restore(start)
    assert undone(emulator) == [True]
    seller.authorize()
    other = emulator.snapshot()
    emulator.restore(one)
    assert undone(emulator) == [False, True]
    emulator.restore(other)
    assert undone(emulator) == [True, False]
    emulator.load_state(emulator.export())
    assert undone(emulator) == [True, True]


def test_what_the_seller_heard_of_a_payment_undone_excuses_no_second_charge(seller: Seller) -> None:
    before = seller.emulator.snapshot()
    seller.sell()
    again(seller, before)
    first = seller.authorize()
    seller.sold = 2
    second = seller.authorize()
    seller.complete(second)
    seller.complete(first)

    with pytest.raises(InvariantBroken, match="for the same payer and URL"):
        seller.emulator.assert_no_double_charge()


def test_it_is_shown_and_sought_over_http(seller: Seller) -> None:
    before = seller.emulator.snapshot()
    seller.sell()
    again(seller, before)
    seller.sell()
    with serve(seller.emulator) as url, httpx.Client(base_url=url, trust_env=False) as http:
        calls = "/_emulator/tenants/main/calls"
        told = http.get(calls, params={"method": "post"}).json()["calls"]
        stands = http.get(calls, params={"undone": "false"}).json()["calls"]

    assert [call["undone"] for call in told] == [True, True, False, False]
    assert [call["number"] for call in stands] == [3, 4]
