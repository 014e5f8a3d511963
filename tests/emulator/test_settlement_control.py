"""Rules for how payments end: of a transaction, payer, resource or of all; `settle` and `fail` by hand."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from faregate.emulator import LIVE_KEY, Account, Emulator, Fault, Resource, SettlementRule
from faregate.errors import ConfigurationError
from faregate.rules.builtin_account import builtin_account
from faregate.rules.payments import PaymentSettled, SettlementPending
from faregate.x402.tokens import TOKENS
from tests.emulator.ledgers import ScriptedLedger
from tests.support.headers import decode_header, encode_header

from .seller import ApiClient, Purchase, assert_error

MANUAL = SettlementRule(manual=True)
MEASURES = {"after_seconds": 1, "after_reads": 1, "until_expiry": True, "manual": True}
ABSENT = {"after_seconds": None, "after_reads": None, "until_expiry": False, "manual": False}
UNKNOWN = "txn_0123456789ab7cde8fab0123456789ab"


def completed(api: ApiClient, resource: str = "text_summary") -> tuple[Purchase, str]:
    """A purchase that its seller has completed, and how it stands."""
    bought = api.buy(resource)
    return bought, str(api.complete(bought).json()["status"])


def pending(api: ApiClient, resource: str = "text_summary", **how: Any) -> Purchase:
    """One that waits to be told."""
    api.service.settle_after(resource, SettlementRule(manual=True, **how))
    bought, status = completed(api, resource)
    assert status == how.get("via", "settling")
    return bought


def status(api: ApiClient, bought: Purchase) -> str:
    return str(api.transaction(bought)["status"])


# One measure


@given(st.sets(st.sampled_from(sorted(MEASURES))), st.sets(st.sampled_from(sorted(MEASURES))))
def test_a_settlement_has_exactly_one_measure(measures: set[str], said_absent: set[str]) -> None:
    """Naming a measure with the value that means none is as good as not naming it."""
    told = {name: ABSENT[name] for name in said_absent} | {name: MEASURES[name] for name in measures}
    if len(measures) == 1:
        settlement = SettlementRule.model_validate(told)
        assert SettlementRule.model_validate(settlement.model_dump()) == settlement
    else:
        with pytest.raises(ValidationError, match="exactly one of after_seconds, after_reads, until_expiry"):
            SettlementRule.model_validate(told)


@pytest.mark.parametrize(
    "told",
    [
        {"until_expiry": True, "to": "succeeded"},
        {"manual": True, "to": "failed"},
        {"until_expiry": "yes"},
        {"manual": 1},
        {"after_reads": 1.5},
        {"after_seconds": float("nan")},
        {"after_seconds": 1, "via": "authorized"},
    ],
)
def test_other_settlements_are_refused(told: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SettlementRule.model_validate(told)


# Until it expires


def test_until_expiry_it_settles_and_then_it_fails(api: ApiClient) -> None:
    api.service.set_balance(api.wallet.address, 10_000)
    api.service.settle_after("text_summary", SettlementRule(until_expiry=True, via="reconciling"))
    api.clock.advance(0.5)
    bought, at_first = completed(api)
    assert at_first == "reconciling"
    api.clock.advance(59.4)
    assert status(api, bought) == "reconciling"
    api.clock.advance(0.1)
    assert api.listed("/transactions?status=failed")["items"][0]["id"] == bought.id
    assert api.service.balance(api.wallet.address) == 10_000
    assert api.access(proof=api.proof()).status_code == 200


def test_an_authorization_without_end_is_refused(api: ApiClient) -> None:
    """The largest moment that a token contract knows is further off than any date."""
    required = decode_header(api.instructions())
    terms = required["accepts"][0]
    authorization = {
        "from": api.wallet.address,
        "to": terms["payTo"],
        "value": terms["amount"],
        "validAfter": "0",
        "validBefore": str(2**256 - 1),
        "nonce": "0x" + "22" * 32,
    }
    signature = api.wallet.sign(authorization, TOKENS["test", "USDC"])
    payload = {"authorization": authorization, "signature": signature}
    refused = api.access(proof=encode_header({"x402Version": 2, "payload": payload, "accepted": terms}))
    assert "at most 660 seconds" in assert_error(refused, 402, "payment_required")


# The most special rule wins


def test_the_most_special_rule_wins(api: ApiClient) -> None:
    """Each level is set apart by `via` and by what is said of the one above it."""
    service, payer = api.service, api.wallet.address
    service.settle_after("*", SettlementRule(after_reads=9))
    assert completed(api)[1] == "settling"
    service.settle_after("text_summary", SettlementRule(after_reads=9, via="reconciling"))
    assert completed(api)[1] == "reconciling"
    assert completed(api, "daily_report")[1] == "settling"
    service.settle_after(payer, SettlementRule(after_reads=0, to="failed"))
    assert completed(api)[1] == "failed"
    bought = api.buy()
    service.settle_after(bought.id, SettlementRule(after_reads=0))
    assert api.complete(bought).json()["status"] == "succeeded"
    service.settle_after(payer.upper().replace("0X", "0x"), None)
    assert completed(api)[1] == "reconciling"
    service.settle_after("text_summary", None)
    assert completed(api)[1] == "settling"
    service.settle_after("*", None)
    assert completed(api)[1] == "succeeded"


def test_a_tenant_can_say_it_for_all(api: ApiClient) -> None:
    text = (
        'keys = [{key = "svc_test_emulator"}]\nsettlement = {manual = true, via = "reconciling"}\n'
        '[[resources]]\nkey = "a"\nname = "A"\nrevisions = [{amount = 1}]\n'
        '[[resources]]\nkey = "b"\nname = "B"\nrevisions = [{amount = 1}]\nsettlement = {after_reads = 0}\n'
    )
    api.use_account(Account.from_toml(text))
    assert [completed(api, key)[1] for key in ("a", "b")] == ["reconciling", "succeeded"]


def test_a_resource_does_not_look_changed_when_its_payments_end_otherwise(api: ApiClient) -> None:
    before = api.listed("/resources")["items"]
    api.clock.advance(1)
    api.service.settle_after("text_summary", MANUAL)
    assert api.listed("/resources")["items"] == before


def test_a_rule_is_for_both_environments(api: ApiClient) -> None:
    api.use_account(allow_live=True)
    api.service.settle_after("*", MANUAL)
    assert completed(api)[1] == "settling"
    api.key = LIVE_KEY
    bought, at_first = completed(api)
    assert at_first == "settling"
    api.service.settle(bought.id)
    assert status(api, bought) == "succeeded"


def test_a_resource_of_one_environment_has_rules_too(api: ApiClient) -> None:
    sold = [one for one in builtin_account().resources if one.key == "text_summary"]
    only: tuple[Resource, ...] = (sold[0].model_copy(update={"environments": ("test",)}),)
    api.use_account(builtin_account().model_copy(update={"resources": only}))
    api.service.settle_after("text_summary", MANUAL)
    assert completed(api)[1] == "settling"


# Of one transaction


@pytest.mark.parametrize("rule", [SettlementRule(after_seconds=0), SettlementRule(after_reads=1), MANUAL])
def test_a_rule_takes_nothing_before_the_work_is_done(api: ApiClient, rule: SettlementRule) -> None:
    bought = api.buy()
    before = api.service.balance(api.wallet.address)
    api.service.settle_after(bought.id, rule)
    api.clock.advance(10)
    assert [status(api, bought) for _ in range(2)] == ["authorized"] * 2
    assert api.service.balance(api.wallet.address) == before
    assert api.fail(bought).json()["status"] == "failed"


def test_the_measure_of_a_transaction_that_is_settling_begins_anew(api: ApiClient) -> None:
    api.service.settle_after("text_summary", SettlementRule(after_seconds=5))
    bought, _ = completed(api)
    api.clock.advance(4)
    api.service.settle_after(bought.id, SettlementRule(after_seconds=5, via="reconciling"))
    assert status(api, bought) == "reconciling"
    api.clock.advance(4.9)
    assert status(api, bought) == "reconciling"
    api.clock.advance(0.1)
    found = api.transaction(bought)
    assert found["status"] == "succeeded"
    began = datetime.fromisoformat(found["authorized_at"])
    assert datetime.fromisoformat(found["settled_at"]) - began == timedelta(seconds=9)


def test_reads_are_counted_from_the_new_rule_on(api: ApiClient) -> None:
    bought, _ = completed(api, "slow_settlement")
    assert status(api, bought) == "settling"
    api.service.settle_after(bought.id, SettlementRule(after_reads=2))
    assert [status(api, bought) for _ in range(2)] == ["settling", "succeeded"]


def test_a_rule_taken_back_leaves_that_of_the_resource(api: ApiClient) -> None:
    bought = pending(api, "slow_settlement")
    api.service.settle_after("slow_settlement", SettlementRule(after_seconds=5))
    api.clock.advance(50)
    assert status(api, bought) == "settling"
    api.service.settle_after(bought.id, None)
    api.clock.advance(5)
    assert status(api, bought) == "succeeded"


def test_a_rule_that_is_over_already_ends_it_now(api: ApiClient) -> None:
    bought = pending(api)
    api.clock.advance(100)
    api.service.settle_after(bought.id, SettlementRule(until_expiry=True))
    assert status(api, bought) == "failed"


# By hand


@pytest.mark.parametrize("via", ["settling", "reconciling"])
@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_a_manual_payment_ends_by_command(api: ApiClient, via: str, end: str) -> None:
    before = api.service.balance(api.wallet.address)
    bought = pending(api, via=via)
    api.clock.advance(10**6)
    assert [api.complete(bought).json()["status"] for _ in range(3)] == [via] * 3
    tell = api.service.settle if end == "succeeded" else api.service.fail
    tell(bought.id)
    found = api.complete(bought)
    paid = end == "succeeded"
    assert (found.status_code, found.json()["status"]) == (200, end)
    assert ("payment-response" in found.headers, found.json()["receipt"] is not None) == (paid, paid)
    assert before - api.service.balance(api.wallet.address) == (10_000 if paid else 0)


@pytest.mark.parametrize(
    "rule",
    [
        SettlementRule(after_seconds=5),
        SettlementRule(after_seconds=5, to="failed"),
        SettlementRule(after_reads=2),
        SettlementRule(until_expiry=True),
    ],
)
@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_any_pending_payment_can_be_ended_once_and_for_all(
    api: ApiClient, rule: SettlementRule, end: str
) -> None:
    api.service.settle_after("text_summary", rule)
    bought, _ = completed(api)
    tell = api.service.settle if end == "succeeded" else api.service.fail
    tell(bought.id)
    api.clock.advance(500)
    assert [status(api, bought) for _ in range(3)] == [end] * 3
    for again in (api.service.settle, api.service.fail):
        with pytest.raises(ConfigurationError, match=f"{bought.id} has already {end}"):
            again(bought.id)
    with pytest.raises(ConfigurationError, match=f"has already {end}"):
        api.service.settle_after(bought.id, MANUAL)


def test_what_fell_due_has_happened_before_a_hand_is_laid_on_it(api: ApiClient) -> None:
    api.service.settle_after("text_summary", SettlementRule(after_seconds=5))
    bought, _ = completed(api)
    api.clock.advance(5)
    with pytest.raises(ConfigurationError, match="has already succeeded"):
        api.service.fail(bought.id)
    api.service.settle_after("text_summary", SettlementRule(after_seconds=5, to="failed"))
    bought, _ = completed(api)
    api.clock.advance(5)
    with pytest.raises(ConfigurationError, match="has already failed"):
        api.service.settle(bought.id)


def test_settling_by_hand_fails_if_the_money_is_gone(api: ApiClient) -> None:
    bought = pending(api)
    api.service.set_balance(api.wallet.address, 9_999)
    api.service.settle(bought.id)
    assert status(api, bought) == "failed"
    assert api.service.balance(api.wallet.address) == 9_999


def test_another_ledger_is_asked(api: ApiClient) -> None:
    ledger = ScriptedLedger()
    ledger.answers = [
        SettlementPending("reconciling"),
        SettlementPending("settling"),
        PaymentSettled("0xabc"),
    ]
    api.use_account(ledger=ledger)
    bought, at_first = completed(api)
    assert at_first == "reconciling"
    api.service.settle(bought.id)
    assert api.listed("/transactions")["items"][0]["status"] == "reconciling"
    api.service.settle(bought.id)
    assert api.transaction(bought)["transaction_hash"] == "0xabc"


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_what_is_made_to_fail_before_the_work_is_done_is_not_charged(api: ApiClient, outcome: str) -> None:
    api.service.set_balance(api.wallet.address, 10_000)
    bought = api.buy()
    api.service.fail(bought.id)
    assert status(api, bought) == "failed"
    assert_error(api.access(proof=bought.proof), 402, "payment_required")
    told = api.complete if outcome == "succeeded" else api.fail
    for _ in range(2):
        answer = told(bought)
        assert (answer.status_code, answer.json()["status"]) == (200, "failed")
        assert "payment-response" not in answer.headers
    assert api.service.balance(api.wallet.address) == 10_000
    assert api.access(proof=api.proof()).status_code == 200


def test_one_that_waits_for_the_work_cannot_be_settled(api: ApiClient) -> None:
    bought = api.buy()
    with pytest.raises(ConfigurationError, match=f"has not completed {bought.id} yet: settle_after says"):
        api.service.settle(bought.id)
    assert api.complete(bought).json()["status"] == "succeeded"


def test_who_is_not_known_is_an_error(api: ApiClient) -> None:
    for act in (api.service.settle, api.service.fail, lambda it: api.service.settle_after(it, MANUAL)):
        with pytest.raises(ConfigurationError, match=f"there is no transaction '{UNKNOWN}'"):
            act(UNKNOWN)
    for target in ("nothing", "", "txn_1", "0x12"):
        with pytest.raises(
            ConfigurationError, match=f"'{target}' is no resource here; give its key, a trans"
        ):
            api.service.settle_after(target, MANUAL)


def test_a_mistyped_address_of_a_payer_is_refused() -> None:
    mistyped = "0x000000000000000000000000000000000000dEad"
    service = Emulator()
    with pytest.raises(ConfigurationError, match="is mistyped"):
        service.set_balance(mistyped, 1)
    with pytest.raises(ConfigurationError, match="is mistyped"):
        service.settle_after(mistyped, None)
    with pytest.raises(ValueError, match="is mistyped"):
        Fault(kind="silence", payer=mistyped)
    with pytest.raises(ConfigurationError, match=r"payers\[0\]\.address: is mistyped"):
        Account.from_toml(f'payers = [{{address = "{mistyped}"}}]')
