"""How payments end: after reads, after seconds, at once; balances promised to open transactions."""

from datetime import datetime, timedelta

import pytest
from pydantic import ValidationError

from faregate.emulator import SettlementRule
from faregate.rules.payments import PaymentRefused, PaymentSettled, SettlementPending
from tests.emulator.ledgers import ScriptedLedger

from .seller import ApiClient, assert_error


def test_a_slow_settlement_succeeds_at_the_second_read(api: ApiClient) -> None:
    bought = api.buy("slow_settlement")
    assert api.complete(bought).json()["status"] == "settling"
    first = api.transaction(bought)
    assert first["status"] == "settling"
    assert "receipt" not in first
    second = api.transaction(bought)
    assert second["status"] == "succeeded"
    assert second["receipt"]["transaction_id"] == bought.id


def test_a_repeated_complete_is_a_read(api: ApiClient) -> None:
    bought = api.buy("slow_settlement")
    assert [api.complete(bought).status_code for _ in range(4)] == [202, 202, 200, 200]
    final = api.complete(bought)
    assert final.headers["payment-response"] == final.json()["payment_response"]


def test_lists_and_access_are_no_reads(api: ApiClient) -> None:
    bought = api.buy("slow_settlement")
    api.complete(bought)
    for _ in range(4):
        assert api.listed("/transactions")["items"][0]["status"] == "settling"
        assert api.access("slow_settlement", bought.proof).status_code == 202


def test_a_failing_settlement_fails_at_the_first_read(api: ApiClient) -> None:
    before = api.service.balance(api.wallet.address)
    bought = api.buy("failing_settlement")
    assert api.complete(bought).json()["status"] == "reconciling"
    found = api.transaction(bought)
    assert found["status"] == "failed"
    assert "receipt" not in found
    again = api.complete(bought)
    assert (again.status_code, again.json()["status"]) == (200, "failed")
    assert "payment-response" not in again.headers
    assert api.service.balance(api.wallet.address) == before


@pytest.mark.parametrize("via", ["settling", "reconciling"])
def test_settlement_by_the_clock(api: ApiClient, via: str) -> None:
    rule = SettlementRule.model_validate({"after_seconds": 5, "via": via})
    api.service.settle_after("text_summary", rule)
    bought = api.buy()
    assert api.complete(bought).json()["status"] == via
    api.clock.advance(4.9)
    assert api.transaction(bought)["status"] == via
    api.clock.advance(0.1)
    found = api.transaction(bought)
    assert found["status"] == "succeeded"
    began = datetime.fromisoformat(found["authorized_at"])
    assert (datetime.fromisoformat(found["settled_at"]) - began).total_seconds() == 5
    assert api.complete(bought).status_code == 200


def test_by_the_clock_it_settles_although_nobody_looks(api: ApiClient) -> None:
    api.service.settle_after("text_summary", SettlementRule(after_seconds=5, to="failed"))
    bought = api.buy()
    api.complete(bought)
    api.clock.advance(500)
    assert api.listed("/transactions?status=failed")["items"][0]["id"] == bought.id


def test_it_settles_when_it_is_due_not_when_somebody_looks(api: ApiClient) -> None:
    api.service.settle_after("text_summary", SettlementRule(after_seconds=5))
    bought = api.buy()
    api.complete(bought)
    api.clock.advance(500)
    found = api.transaction(bought)
    assert datetime.fromisoformat(found["settled_at"]) == api.clock() - timedelta(seconds=495)


def test_a_payment_submitted_too_late_fails_at_once(api: ApiClient) -> None:
    bought = api.buy("slow_settlement")
    api.clock.advance(60)
    response = api.complete(bought)
    assert (response.status_code, response.json()["status"]) == (200, "failed")


def test_many_fall_due_in_one_moment(api: ApiClient) -> None:
    api.service.settle_after("text_summary", SettlementRule(after_seconds=5))
    for bought in [api.buy() for _ in range(3)]:
        api.complete(bought)
    api.clock.advance(5)
    assert api.listed("/transactions?status=succeeded")["count"] == 3


def test_a_payment_submitted_in_time_settles_after_valid_before(api: ApiClient) -> None:
    api.service.settle_after("text_summary", SettlementRule(after_seconds=300))
    bought = api.buy()
    api.complete(bought)
    api.clock.advance(300)
    assert api.transaction(bought)["status"] == "succeeded"


def test_at_once_to_failure(api: ApiClient) -> None:
    api.service.settle_after("text_summary", SettlementRule(after_reads=0, to="failed"))
    response = api.complete(api.buy())
    assert (response.status_code, response.json()["status"]) == (200, "failed")


def test_the_setting_of_a_payer_wins(api: ApiClient) -> None:
    api.service.settle_after(api.wallet.address, SettlementRule(after_reads=1, via="reconciling"))
    assert api.complete(api.buy("slow_settlement")).json()["status"] == "reconciling"
    api.service.settle_after(api.wallet.address, None)
    assert api.complete(api.buy("slow_settlement")).json()["status"] == "settling"
    api.service.settle_after("slow_settlement", None)
    assert api.complete(api.buy("slow_settlement")).json()["status"] == "succeeded"


@pytest.mark.parametrize("given", [{}, {"after_reads": 1, "after_seconds": 1}, {"after_reads": -1}])
def test_a_settlement_has_one_measure(given: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        SettlementRule.model_validate(given)


def test_open_transactions_hold_the_balance(api: ApiClient) -> None:
    api.service.set_balance(api.wallet.address, 25_000)
    first, second = api.buy(), api.buy()
    third = api.proof()
    assert "not enough USDC" in assert_error(api.access(proof=third), 402, "payment_required")
    api.complete(first)
    assert "not enough" in assert_error(api.access(proof=third), 402, "payment_required")
    api.fail(second)
    assert api.access(proof=third).status_code == 200
    assert api.service.balance(api.wallet.address) == 15_000


def test_a_hold_is_for_one_token_and_one_payer(api: ApiClient) -> None:
    api.service.set_balance(api.wallet.address, 10_000)
    api.buy()
    assert api.access("euro_report", api.proof("euro_report")).status_code == 200


def test_a_failed_settlement_frees_the_balance(api: ApiClient) -> None:
    api.service.set_balance(api.wallet.address, 10_000)
    bought = api.buy("failing_settlement")
    api.complete(bought)
    assert api.access(proof=api.proof()).status_code == 402
    api.transaction(bought)
    assert api.access(proof=api.proof()).status_code == 200


def test_an_authorization_nobody_can_take_any_more_frees_the_balance(api: ApiClient) -> None:
    api.service.set_balance(api.wallet.address, 10_000)
    forgotten = api.buy()
    api.clock.advance(60)
    assert api.complete(api.buy()).json()["status"] == "succeeded"
    assert api.complete(forgotten).json()["status"] == "failed"
    assert api.service.balance(api.wallet.address) == 0


def test_a_settling_payment_keeps_its_hold_after_valid_before(api: ApiClient) -> None:
    api.service.set_balance(api.wallet.address, 10_000)
    bought = api.buy("slow_settlement")
    api.complete(bought)
    api.clock.advance(120)
    assert api.access(proof=api.proof()).status_code == 402
    api.transaction(bought)
    assert api.transaction(bought)["status"] == "succeeded"


def test_the_default_balance_pays_for_a_wallet_never_seen(api: ApiClient) -> None:
    assert api.service.balance(api.wallet.address) == api.service.account.default_balance
    assert api.complete(api.buy()).json()["status"] == "succeeded"


def test_another_ledger_replaces_the_simulated_one(api: ApiClient) -> None:
    ledger = ScriptedLedger()
    ledger.answers = [TimeoutError(), SettlementPending("settling"), PaymentSettled("0xabc")]
    api.use_account(ledger=ledger)
    bought = api.buy()
    # What is reconciling never looks like a first attempt again.
    assert [api.complete(bought).json()["status"] for _ in range(2)] == ["reconciling"] * 2
    assert api.transaction(bought)["transaction_hash"] == "0xabc"
    ledger.answers = [PaymentRefused("expired")]
    assert api.complete(api.buy()).json()["status"] == "failed"
    api.buy()
    api.buy()
    assert ledger.verified == [0, 0, 0, 10_000]
