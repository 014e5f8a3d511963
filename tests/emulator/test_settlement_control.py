"""Rules for how payments end: of a transaction, payer, resource or of all; `settle` and `fail` by hand."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from faregate.emulator import LIVE_KEY, Account, Emulator, Resource, SettlementRule
from faregate.errors import ConfigurationError
from faregate.service.builtin import builtin_account
from faregate.service.payments import PaymentPending, PaymentSettled
from faregate.x402.tokens import TOKENS
from tests.emulator.facilitator import Facilitator

from .seller import Purchase, Shop, assert_error, decoded, encoded

MANUAL = SettlementRule(manual=True)
MEASURES = {"after_seconds": 1, "after_reads": 1, "until_expiry": True, "manual": True}
ABSENT = {"after_seconds": None, "after_reads": None, "until_expiry": False, "manual": False}
UNKNOWN = "txn_0123456789ab7cde8fab0123456789ab"


def completed(shop: Shop, resource: str = "text_summary") -> tuple[Purchase, str]:
    """A purchase that its seller has completed, and how it stands."""
    bought = shop.buy(resource)
    return bought, str(shop.complete(bought).json()["status"])


def pending(shop: Shop, resource: str = "text_summary", **how: Any) -> Purchase:
    """One that waits to be told."""
    shop.emulator.settle_after(resource, SettlementRule(manual=True, **how))
    bought, status = completed(shop, resource)
    assert status == how.get("via", "settling")
    return bought


def status(shop: Shop, bought: Purchase) -> str:
    return str(shop.transaction(bought)["status"])


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


def test_until_expiry_it_settles_and_then_it_fails(shop: Shop) -> None:
    shop.emulator.fund(shop.wallet.address, 10_000)
    shop.emulator.settle_after("text_summary", SettlementRule(until_expiry=True, via="reconciling"))
    shop.clock.advance(0.5)
    bought, at_first = completed(shop)
    assert at_first == "reconciling"
    shop.clock.advance(59.4)
    assert status(shop, bought) == "reconciling"
    shop.clock.advance(0.1)
    assert shop.listed("/transactions?status=failed")["items"][0]["id"] == bought.id
    assert shop.emulator.balance(shop.wallet.address) == 10_000
    assert shop.access(proof=shop.proof()).status_code == 200


def test_an_authorization_without_end_never_expires(shop: Shop) -> None:
    """The largest moment that a token contract knows is further off than any date."""
    shop.emulator.settle_after("text_summary", SettlementRule(until_expiry=True))
    required = decoded(shop.instructions())
    terms = required["accepts"][0]
    authorization = {
        "from": shop.wallet.address,
        "to": terms["payTo"],
        "value": terms["amount"],
        "validAfter": "0",
        "validBefore": str(2**256 - 1),
        "nonce": "0x" + "22" * 32,
    }
    signature = shop.wallet.sign(authorization, TOKENS["test", "USDC"])
    payload = {"authorization": authorization, "signature": signature}
    proof = encoded({"x402Version": 2, "payload": payload, "accepted": terms})
    made = shop.access(proof=proof).json()["transaction_id"]
    bought = Purchase(made, proof, shop.emulator.revision_id("text_summary"))
    assert shop.complete(bought).json()["status"] == "settling"
    shop.clock.advance(10**9)
    assert status(shop, bought) == "settling"


# The most special rule wins


def test_the_most_special_rule_wins(shop: Shop) -> None:
    """Each level is set apart by `via` and by what is said of the one above it."""
    emulator, payer = shop.emulator, shop.wallet.address
    emulator.settle_after("*", SettlementRule(after_reads=9))
    assert completed(shop)[1] == "settling"
    emulator.settle_after("text_summary", SettlementRule(after_reads=9, via="reconciling"))
    assert completed(shop)[1] == "reconciling"
    assert completed(shop, "daily_report")[1] == "settling"
    emulator.settle_after(payer, SettlementRule(after_reads=0, to="failed"))
    assert completed(shop)[1] == "failed"
    bought = shop.buy()
    emulator.settle_after(bought.id, SettlementRule(after_reads=0))
    assert shop.complete(bought).json()["status"] == "succeeded"
    emulator.settle_after(payer.upper().replace("0X", "0x"), None)
    assert completed(shop)[1] == "reconciling"
    emulator.settle_after("text_summary", None)
    assert completed(shop)[1] == "settling"
    emulator.settle_after("*", None)
    assert completed(shop)[1] == "succeeded"


def test_a_world_can_say_it_for_all(shop: Shop) -> None:
    text = (
        'keys = [{key = "svc_test_emulator"}]\nsettlement = {manual = true, via = "reconciling"}\n'
        '[[resources]]\nkey = "a"\nname = "A"\nrevisions = [{amount = 1}]\n'
        '[[resources]]\nkey = "b"\nname = "B"\nrevisions = [{amount = 1}]\nsettlement = {after_reads = 0}\n'
    )
    shop.use(Emulator(Account.from_toml(text), clock=shop.clock))
    assert [completed(shop, key)[1] for key in ("a", "b")] == ["reconciling", "succeeded"]


def test_a_resource_does_not_look_changed_when_its_payments_end_otherwise(shop: Shop) -> None:
    before = shop.listed("/resources")["items"]
    shop.clock.advance(1)
    shop.emulator.settle_after("text_summary", MANUAL)
    assert shop.listed("/resources")["items"] == before


def test_a_rule_is_for_both_environments(shop: Shop) -> None:
    shop.use(Emulator(clock=shop.clock, allow_live=True))
    shop.emulator.settle_after("*", MANUAL)
    assert completed(shop)[1] == "settling"
    shop.key = LIVE_KEY
    bought, at_first = completed(shop)
    assert at_first == "settling"
    shop.emulator.settle(bought.id)
    assert status(shop, bought) == "succeeded"


def test_a_resource_of_one_environment_has_rules_too(shop: Shop) -> None:
    sold = [one for one in builtin_account().resources if one.key == "text_summary"]
    only: tuple[Resource, ...] = (sold[0].model_copy(update={"environments": ("test",)}),)
    shop.use(Emulator(builtin_account().model_copy(update={"resources": only}), clock=shop.clock))
    shop.emulator.settle_after("text_summary", MANUAL)
    assert completed(shop)[1] == "settling"


# Of one transaction


@pytest.mark.parametrize("rule", [SettlementRule(after_seconds=0), SettlementRule(after_reads=1), MANUAL])
def test_a_rule_takes_nothing_before_the_work_is_done(shop: Shop, rule: SettlementRule) -> None:
    bought = shop.buy()
    before = shop.emulator.balance(shop.wallet.address)
    shop.emulator.settle_after(bought.id, rule)
    shop.clock.advance(10)
    assert [status(shop, bought) for _ in range(2)] == ["authorized"] * 2
    assert shop.emulator.balance(shop.wallet.address) == before
    assert shop.fail(bought).json()["status"] == "failed"


def test_the_measure_of_a_transaction_that_is_settling_begins_anew(shop: Shop) -> None:
    shop.emulator.settle_after("text_summary", SettlementRule(after_seconds=5))
    bought, _ = completed(shop)
    shop.clock.advance(4)
    shop.emulator.settle_after(bought.id, SettlementRule(after_seconds=5, via="reconciling"))
    assert status(shop, bought) == "reconciling"
    shop.clock.advance(4.9)
    assert status(shop, bought) == "reconciling"
    shop.clock.advance(0.1)
    found = shop.transaction(bought)
    assert found["status"] == "succeeded"
    began = datetime.fromisoformat(found["authorized_at"])
    assert datetime.fromisoformat(found["settled_at"]) - began == timedelta(seconds=9)


def test_reads_are_counted_from_the_new_rule_on(shop: Shop) -> None:
    bought, _ = completed(shop, "slow_settlement")
    assert status(shop, bought) == "settling"
    shop.emulator.settle_after(bought.id, SettlementRule(after_reads=2))
    assert [status(shop, bought) for _ in range(2)] == ["settling", "succeeded"]


def test_a_rule_taken_back_leaves_that_of_the_resource(shop: Shop) -> None:
    bought = pending(shop, "slow_settlement")
    shop.emulator.settle_after("slow_settlement", SettlementRule(after_seconds=5))
    shop.clock.advance(50)
    assert status(shop, bought) == "settling"
    shop.emulator.settle_after(bought.id, None)
    shop.clock.advance(5)
    assert status(shop, bought) == "succeeded"


def test_a_rule_that_is_over_already_ends_it_now(shop: Shop) -> None:
    bought = pending(shop)
    shop.clock.advance(100)
    shop.emulator.settle_after(bought.id, SettlementRule(until_expiry=True))
    assert status(shop, bought) == "failed"


# By hand


@pytest.mark.parametrize("via", ["settling", "reconciling"])
@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_a_manual_payment_ends_when_it_is_told_to(shop: Shop, via: str, end: str) -> None:
    before = shop.emulator.balance(shop.wallet.address)
    bought = pending(shop, via=via)
    shop.clock.advance(10**6)
    assert [shop.complete(bought).json()["status"] for _ in range(3)] == [via] * 3
    tell = shop.emulator.settle if end == "succeeded" else shop.emulator.fail
    tell(bought.id)
    found = shop.complete(bought)
    paid = end == "succeeded"
    assert (found.status_code, found.json()["status"]) == (200, end)
    assert ("payment-response" in found.headers, found.json()["receipt"] is not None) == (paid, paid)
    assert before - shop.emulator.balance(shop.wallet.address) == (10_000 if paid else 0)


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
    shop: Shop, rule: SettlementRule, end: str
) -> None:
    shop.emulator.settle_after("text_summary", rule)
    bought, _ = completed(shop)
    tell = shop.emulator.settle if end == "succeeded" else shop.emulator.fail
    tell(bought.id)
    shop.clock.advance(500)
    assert [status(shop, bought) for _ in range(3)] == [end] * 3
    for again in (shop.emulator.settle, shop.emulator.fail):
        with pytest.raises(ConfigurationError, match=f"{bought.id} has already {end}"):
            again(bought.id)
    with pytest.raises(ConfigurationError, match=f"has already {end}"):
        shop.emulator.settle_after(bought.id, MANUAL)


def test_what_fell_due_has_happened_before_a_hand_is_laid_on_it(shop: Shop) -> None:
    shop.emulator.settle_after("text_summary", SettlementRule(after_seconds=5))
    bought, _ = completed(shop)
    shop.clock.advance(5)
    with pytest.raises(ConfigurationError, match="has already succeeded"):
        shop.emulator.fail(bought.id)
    shop.emulator.settle_after("text_summary", SettlementRule(after_seconds=5, to="failed"))
    bought, _ = completed(shop)
    shop.clock.advance(5)
    with pytest.raises(ConfigurationError, match="has already failed"):
        shop.emulator.settle(bought.id)


def test_settling_by_hand_fails_if_the_money_is_gone(shop: Shop) -> None:
    bought = pending(shop)
    shop.emulator.fund(shop.wallet.address, 9_999)
    shop.emulator.settle(bought.id)
    assert status(shop, bought) == "failed"
    assert shop.emulator.balance(shop.wallet.address) == 9_999


def test_another_facilitator_is_asked(shop: Shop) -> None:
    facilitator = Facilitator()
    facilitator.answers = [PaymentPending("reconciling"), PaymentPending("settling"), PaymentSettled("0xabc")]
    shop.use(Emulator(clock=shop.clock, payments=facilitator))
    bought, at_first = completed(shop)
    assert at_first == "reconciling"
    shop.emulator.settle(bought.id)
    assert shop.listed("/transactions")["items"][0]["status"] == "settling"
    shop.emulator.settle(bought.id)
    assert shop.transaction(bought)["transaction_hash"] == "0xabc"


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_what_is_made_to_fail_before_the_work_is_done_is_not_charged(shop: Shop, outcome: str) -> None:
    shop.emulator.fund(shop.wallet.address, 10_000)
    bought = shop.buy()
    shop.emulator.fail(bought.id)
    assert status(shop, bought) == "failed"
    assert_error(shop.access(proof=bought.proof), 402, "payment_required")
    told = shop.complete if outcome == "succeeded" else shop.fail
    for _ in range(2):
        answer = told(bought)
        assert (answer.status_code, answer.json()["status"]) == (200, "failed")
        assert "payment-response" not in answer.headers
    assert shop.emulator.balance(shop.wallet.address) == 10_000
    assert shop.access(proof=shop.proof()).status_code == 200


def test_one_that_waits_for_the_work_cannot_be_settled(shop: Shop) -> None:
    bought = shop.buy()
    with pytest.raises(ConfigurationError, match=f"has not completed {bought.id} yet: settle_after says"):
        shop.emulator.settle(bought.id)
    assert shop.complete(bought).json()["status"] == "succeeded"


def test_who_is_not_known_is_told(shop: Shop) -> None:
    for act in (shop.emulator.settle, shop.emulator.fail, lambda it: shop.emulator.settle_after(it, MANUAL)):
        with pytest.raises(ConfigurationError, match=f"there is no transaction '{UNKNOWN}'"):
            act(UNKNOWN)
    for target in ("nothing", "", "txn_1", "0x12"):
        with pytest.raises(
            ConfigurationError, match=f"'{target}' is no resource here; give its key, a trans"
        ):
            shop.emulator.settle_after(target, MANUAL)
