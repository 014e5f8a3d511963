"""What payers get of our shop, whatever happens. The fixtures are faregate's; nothing is set up."""

import pytest
from fastapi.testclient import TestClient
from shop import app

from faregate.emulator import Emulator, Fault
from faregate.testing import Payer

client = TestClient(app)


def test_a_report_is_sold(payer: Payer, emulator: Emulator) -> None:
    assert payer.ask(client, "/report").status == 402
    bought = payer.get(client, "/report")
    assert (bought.status, bought.paid, bought.json) == (200, True, {"report": "Sunny."})
    assert payer.again(bought).body == bought.body  # a lost answer comes back
    assert [call.status for call in emulator.calls("complete")] == [200]
    emulator.assert_all_settled()


def test_failed_work_is_not_charged(payer: Payer, emulator: Emulator) -> None:
    answer = payer.post(client, "/summary?text=")
    assert (answer.status, answer.paid) == (422, False)
    assert emulator.balance(payer.address) == 1000_000000


@pytest.mark.parametrize("name", ["slow", "reads", "reconciles"])
def test_a_late_payment_buys_in_the_end(name: str, payer: Payer, emulator: Emulator) -> None:
    late = payer(name).post(client, "/summary?text=a+long+story")
    assert (late.status, "summary" in late.text) == (202, False)
    emulator.clock.advance(2)
    payer.again(late)
    assert payer.again(late).json == {"summary": "a long story"}


@pytest.mark.parametrize("name", ["poor", "rejected"])
def test_who_cannot_pay_gets_nothing(name: str, payer: Payer) -> None:
    assert payer(name).get(client, "/report").status == 402


def test_cheats_get_nothing(payer: Payer) -> None:
    bought = payer.get(client, "/report")
    assert payer.forged(client, "/report").status == 402
    assert payer.underpaid(client, "/report").status == 402
    assert payer.replay(bought, "/summary?text=free", method="POST").status == 409


def test_a_lost_answer_of_the_service_costs_nobody(payer: Payer, emulator: Emulator) -> None:
    emulator.faults.add(Fault(kind="silence", when="after", operation="complete"))
    assert payer.get(client, "/report").paid
    assert [call.fault for call in emulator.calls("complete")] == ["silence-1", None]
    emulator.check_invariants(payer.answers)


def test_notes_are_free(payer: Payer, emulator: Emulator) -> None:
    assert payer.get(client, "/notes").json == {"notes": "Free for all."}
    assert emulator.calls("complete") == []
