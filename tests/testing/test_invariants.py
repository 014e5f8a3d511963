"""Each invariant holds of an honest seller, and catches one that is not."""

import pytest

from faregate.emulator import Emulator, Fault
from faregate.emulator.assertions import InvariantBroken
from faregate.testing import Payer

from .sellers import Blind, Forgetful, Free, Greedy, Hasty, Honest, Late, Trusting


def test_an_honest_seller_breaks_nothing(payer: Payer, emulator: Emulator) -> None:
    seller = Honest(emulator)
    bought = payer.get(seller, "/report")
    assert bought.paid
    assert payer.get(Free(emulator), "/notes").body == b"Sunny."
    late = payer("reads").get(seller, "/report")
    assert [late.status, payer.again(late).status, payer.again(late).status] == [202, 202, 200]
    for answer in (
        payer.forged(seller, "/report"),
        payer.underpaid(seller, "/report"),
        payer.replay(bought, "/other"),
        payer("poor").get(seller, "/report"),
        payer("rejected").get(seller, "/report"),
    ):
        assert not answer.paid

    emulator.check_invariants(payer.answers)
    emulator.check_invariants()


def test_what_has_become_free_may_leave_for_a_payment_too(payer: Payer, emulator: Emulator) -> None:
    refused = payer("poor").get(Honest(emulator), "/report")
    emulator.require_payment("daily_report", False)
    assert payer.again(refused).body == b"Sunny."

    emulator.check_invariants(payer.answers)


@pytest.mark.faregate(clock="frozen")
def test_who_buys_the_same_twice_is_rightly_charged_twice(payer: Payer, emulator: Emulator) -> None:
    bought = [payer.get(Honest(emulator), "/report") for _ in range(2)]

    assert all(answer.paid for answer in bought)
    emulator.check_invariants(payer.answers)
    emulator.check_invariants()


@pytest.mark.parametrize("wrong", [Trusting, Hasty, Late, Blind])
def test_a_release_that_nothing_allowed_is_found(
    wrong: type[Honest], payer: Payer, emulator: Emulator
) -> None:
    seller = wrong(emulator)
    released = payer("reads").get(seller, "/report")
    assert released.body == b"Sunny."

    with pytest.raises(InvariantBroken, match="a result \\(200\\) left before the service proved") as found:
        emulator.assert_released_only_if_completed(payer.answers)

    assert (released.transaction or "no transaction") in str(found.value)


def test_what_is_settled_later_does_not_excuse_an_early_release(payer: Payer, emulator: Emulator) -> None:
    seller = Hasty(emulator)
    released = payer("slow").get(seller, "/report")
    emulator.clock.advance(2)
    assert Honest(emulator)._complete(str(released.transaction), str(released.proof)).status == 200
    emulator.assert_all_settled()

    with pytest.raises(InvariantBroken):
        emulator.assert_released_only_if_completed(payer.answers)


def test_an_answer_that_never_arrived_allows_nothing(payer: Payer, emulator: Emulator) -> None:
    """The service settled; the seller was not told, and released."""
    emulator.faults.add(Fault(kind="silence", when="after", operation="complete"))
    assert payer.get(Hasty(emulator), "/report").body == b"Sunny."

    with pytest.raises(InvariantBroken, match="now succeeded"):
        emulator.assert_released_only_if_completed(payer.answers)


def test_a_purchase_charged_twice_is_found(payer: Payer, emulator: Emulator) -> None:
    seller = Greedy(emulator)
    first = payer.get(seller, "/report")
    second = payer.anew(first)
    assert (first.status, second.status) == (402, 402)

    with pytest.raises(InvariantBroken, match="one purchase was charged 2 times") as found:
        emulator.assert_no_double_charge(payer.answers)

    assert str(first.transaction) in str(found.value)
    assert str(second.transaction) in str(found.value)


def test_a_charge_beside_an_open_one_is_seen_without_answers(payer: Payer, emulator: Emulator) -> None:
    slow = payer("slow")
    slow.anew(slow.get(Greedy(emulator), "/report"))
    emulator.assert_no_double_charge()
    emulator.clock.advance(2)

    with pytest.raises(InvariantBroken, match="for the same payer and URL"):
        emulator.assert_no_double_charge()


@pytest.mark.faregate(clock="frozen")
def test_a_charge_whose_answer_was_lost_is_seen_without_answers(payer: Payer, emulator: Emulator) -> None:
    """The first had succeeded by then; the seller did not know."""
    emulator.faults.add(Fault(kind="silence", when="after", operation="complete"))
    payer.anew(payer.get(Greedy(emulator), "/report"))

    with pytest.raises(InvariantBroken, match="for the same payer and URL"):
        emulator.assert_no_double_charge()


def test_others_may_pay_meanwhile(payer: Payer, emulator: Emulator) -> None:
    seller = Honest(emulator)
    for one in (payer("slow"), payer("good"), payer.another()):
        one.get(seller, "/report")
    payer("slow").get(seller, "/another")
    emulator.clock.advance(2)

    emulator.assert_no_double_charge()


@pytest.mark.parametrize(("name", "status"), [("good", "authorized"), ("slow", "settling")])
def test_what_is_left_open_is_found(name: str, status: str, payer: Payer, emulator: Emulator) -> None:
    seller = Forgetful(emulator) if status == "authorized" else Honest(emulator)
    left = payer(name).get(seller, "/report")

    with pytest.raises(InvariantBroken, match=f"{left.transaction} is still {status}"):
        emulator.assert_all_settled()


def test_one_check_for_all(payer: Payer, emulator: Emulator) -> None:
    payer.get(Trusting(emulator), "/report")

    with pytest.raises(InvariantBroken, match="still authorized"):
        emulator.check_invariants()
    with pytest.raises(InvariantBroken, match="left before"):
        emulator.check_invariants(payer.answers)
