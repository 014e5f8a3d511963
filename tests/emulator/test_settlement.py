"""How payments end: after reads, after seconds, at once; balances promised to open transactions."""

from datetime import datetime, timedelta

import pytest
from pydantic import ValidationError

from faregate.emulator import Emulator, SettlementRule
from faregate.service.payments import PaymentPending, PaymentRefused, PaymentSettled
from tests.emulator.facilitator import Facilitator

from .seller import Shop, assert_error


def test_a_slow_settlement_succeeds_at_the_second_read(shop: Shop) -> None:
    bought = shop.buy("slow_settlement")
    assert shop.complete(bought).json()["status"] == "settling"
    first = shop.transaction(bought)
    assert first["status"] == "settling"
    assert "receipt" not in first
    second = shop.transaction(bought)
    assert second["status"] == "succeeded"
    assert second["receipt"]["transaction_id"] == bought.id


def test_a_repeated_complete_is_a_read(shop: Shop) -> None:
    bought = shop.buy("slow_settlement")
    assert [shop.complete(bought).status_code for _ in range(4)] == [202, 202, 200, 200]
    final = shop.complete(bought)
    assert final.headers["payment-response"] == final.json()["payment_response"]


def test_lists_and_access_are_no_reads(shop: Shop) -> None:
    bought = shop.buy("slow_settlement")
    shop.complete(bought)
    for _ in range(4):
        assert shop.listed("/transactions")["items"][0]["status"] == "settling"
        assert shop.access("slow_settlement", bought.proof).status_code == 202


def test_a_failing_settlement_fails_at_the_first_read(shop: Shop) -> None:
    before = shop.emulator.balance(shop.wallet.address)
    bought = shop.buy("failing_settlement")
    assert shop.complete(bought).json()["status"] == "reconciling"
    found = shop.transaction(bought)
    assert found["status"] == "failed"
    assert "receipt" not in found
    again = shop.complete(bought)
    assert (again.status_code, again.json()["status"]) == (200, "failed")
    assert "payment-response" not in again.headers
    assert shop.emulator.balance(shop.wallet.address) == before


@pytest.mark.parametrize("via", ["settling", "reconciling"])
def test_settlement_by_the_clock(shop: Shop, via: str) -> None:
    rule = SettlementRule.model_validate({"after_seconds": 5, "via": via})
    shop.emulator.settle_after("text_summary", rule)
    bought = shop.buy()
    assert shop.complete(bought).json()["status"] == via
    shop.clock.advance(4.9)
    assert shop.transaction(bought)["status"] == via
    shop.clock.advance(0.1)
    found = shop.transaction(bought)
    assert found["status"] == "succeeded"
    began = datetime.fromisoformat(found["authorized_at"])
    assert (datetime.fromisoformat(found["settled_at"]) - began).total_seconds() == 5
    assert shop.complete(bought).status_code == 200


def test_by_the_clock_it_settles_although_nobody_looks(shop: Shop) -> None:
    shop.emulator.settle_after("text_summary", SettlementRule(after_seconds=5, to="failed"))
    bought = shop.buy()
    shop.complete(bought)
    shop.clock.advance(500)
    assert shop.listed("/transactions?status=failed")["items"][0]["id"] == bought.id


def test_it_settles_when_it_is_due_not_when_somebody_looks(shop: Shop) -> None:
    shop.emulator.settle_after("text_summary", SettlementRule(after_seconds=5))
    bought = shop.buy()
    shop.complete(bought)
    shop.clock.advance(500)
    found = shop.transaction(bought)
    assert datetime.fromisoformat(found["settled_at"]) == shop.clock() - timedelta(seconds=495)


def test_a_payment_submitted_too_late_fails_at_once(shop: Shop) -> None:
    bought = shop.buy("slow_settlement")
    shop.clock.advance(60)
    response = shop.complete(bought)
    assert (response.status_code, response.json()["status"]) == (200, "failed")


def test_many_fall_due_in_one_moment(shop: Shop) -> None:
    shop.emulator.settle_after("text_summary", SettlementRule(after_seconds=5))
    for bought in [shop.buy() for _ in range(3)]:
        shop.complete(bought)
    shop.clock.advance(5)
    assert shop.listed("/transactions?status=succeeded")["count"] == 3


def test_a_payment_submitted_in_time_settles_after_valid_before(shop: Shop) -> None:
    shop.emulator.settle_after("text_summary", SettlementRule(after_seconds=300))
    bought = shop.buy()
    shop.complete(bought)
    shop.clock.advance(300)
    assert shop.transaction(bought)["status"] == "succeeded"


def test_at_once_to_failure(shop: Shop) -> None:
    shop.emulator.settle_after("text_summary", SettlementRule(after_reads=0, to="failed"))
    response = shop.complete(shop.buy())
    assert (response.status_code, response.json()["status"]) == (200, "failed")


def test_the_setting_of_a_payer_wins(shop: Shop) -> None:
    shop.emulator.settle_after(shop.wallet.address, SettlementRule(after_reads=1, via="reconciling"))
    assert shop.complete(shop.buy("slow_settlement")).json()["status"] == "reconciling"
    shop.emulator.settle_after(shop.wallet.address, None)
    assert shop.complete(shop.buy("slow_settlement")).json()["status"] == "settling"
    shop.emulator.settle_after("slow_settlement", None)
    assert shop.complete(shop.buy("slow_settlement")).json()["status"] == "succeeded"


@pytest.mark.parametrize("given", [{}, {"after_reads": 1, "after_seconds": 1}, {"after_reads": -1}])
def test_a_settlement_has_one_measure(given: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        SettlementRule.model_validate(given)


def test_open_transactions_hold_the_balance(shop: Shop) -> None:
    shop.emulator.fund(shop.wallet.address, 25_000)
    first, second = shop.buy(), shop.buy()
    third = shop.proof()
    assert "not enough USDC" in assert_error(shop.access(proof=third), 402, "payment_required")
    shop.complete(first)
    assert "not enough" in assert_error(shop.access(proof=third), 402, "payment_required")
    shop.fail(second)
    assert shop.access(proof=third).status_code == 200
    assert shop.emulator.balance(shop.wallet.address) == 15_000


def test_a_hold_is_for_one_token_and_one_payer(shop: Shop) -> None:
    shop.emulator.fund(shop.wallet.address, 10_000)
    shop.buy()
    assert shop.access("euro_report", shop.proof("euro_report")).status_code == 200


def test_a_failed_settlement_frees_the_balance(shop: Shop) -> None:
    shop.emulator.fund(shop.wallet.address, 10_000)
    bought = shop.buy("failing_settlement")
    shop.complete(bought)
    assert shop.access(proof=shop.proof()).status_code == 402
    shop.transaction(bought)
    assert shop.access(proof=shop.proof()).status_code == 200


def test_an_authorization_nobody_can_take_any_more_frees_the_balance(shop: Shop) -> None:
    shop.emulator.fund(shop.wallet.address, 10_000)
    forgotten = shop.buy()
    shop.clock.advance(60)
    assert shop.complete(shop.buy()).json()["status"] == "succeeded"
    assert shop.complete(forgotten).json()["status"] == "failed"
    assert shop.emulator.balance(shop.wallet.address) == 0


def test_a_settling_payment_keeps_its_hold_after_valid_before(shop: Shop) -> None:
    shop.emulator.fund(shop.wallet.address, 10_000)
    bought = shop.buy("slow_settlement")
    shop.complete(bought)
    shop.clock.advance(120)
    assert shop.access(proof=shop.proof()).status_code == 402
    shop.transaction(bought)
    assert shop.transaction(bought)["status"] == "succeeded"


def test_the_default_balance_pays_for_a_wallet_never_seen(shop: Shop) -> None:
    assert shop.emulator.balance(shop.wallet.address) == shop.emulator.account.default_balance
    assert shop.complete(shop.buy()).json()["status"] == "succeeded"


def test_another_facilitator_can_sit_behind_the_seam(shop: Shop) -> None:
    facilitator = Facilitator()
    facilitator.answers = [TimeoutError(), PaymentPending("settling"), PaymentSettled("0xabc")]
    shop.use(Emulator(clock=shop.clock, payments=facilitator))
    bought = shop.buy()
    assert shop.complete(bought).json()["status"] == "reconciling"
    assert shop.complete(bought).json()["status"] == "settling"
    assert shop.transaction(bought)["transaction_hash"] == "0xabc"
    facilitator.answers = [PaymentRefused("expired")]
    assert shop.complete(shop.buy()).json()["status"] == "failed"
    shop.buy()
    shop.buy()
    assert facilitator.verified == [0, 0, 0, 10_000]
