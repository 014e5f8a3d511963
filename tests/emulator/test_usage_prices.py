"""A price that follows the use: what is authorized, what is settled of it, and what says so."""

import json
import logging
from typing import Any

import pytest
from x402.schemas import SettleResponse

from faregate.emulator import Account, Emulator, Revision, SettlementRule
from faregate.rules.payments import FACILITATOR
from tests.support.headers import decode_header, encode_header

from .seller import ApiClient, assert_error

CATALOG = """
[[keys]]
key = "svc_test_usage"

[[resources]]
key = "completion"
name = "Completion"

[[resources.revisions]]
amount = "500000"
values = [
  { name = "output-tokens", unit = "token", required = true },
  { name = "pages" },
  { name = "note" },
]
usage = { rates = { output-tokens = "10", pages = "0.5" }, fixed = "200", least = "300" }
"""
MAXIMUM = 500_000


@pytest.fixture
def seller(api: ApiClient) -> ApiClient:
    api.key = "svc_test_usage"
    api.use_account(Account.from_toml(CATALOG))
    return api


def complete(seller: ApiClient, **values: str) -> dict[str, Any]:
    """Buy once, report these values, and return the answer with its transaction."""
    bought = seller.buy("completion")
    answer = seller.complete(bought, values={name.replace("_", "-"): one for name, one in values.items()})
    assert answer.status_code == 200, answer.text
    return {**answer.json(), "transaction": seller.transaction(bought)}


def get_balances(seller: ApiClient) -> tuple[int, int]:
    """The balance of the payer, and that of the seller."""
    service = seller.service
    return service.balance(seller.wallet.address), service.balance(service.account.seller.pay_to)


def test_the_instructions_offer_the_maximum_by_upto(seller: ApiClient) -> None:
    required = decode_header(seller.instructions("completion"))
    assert required["error"] == "PAYMENT-SIGNATURE header is required, for up to 0.50 USDC"
    [terms] = required["accepts"]
    assert (terms["scheme"], terms["amount"]) == ("upto", str(MAXIMUM))
    assert terms["extra"]["facilitatorAddress"] == FACILITATOR


def test_what_was_used_is_settled(seller: ApiClient) -> None:
    before = get_balances(seller)
    answer = complete(seller, output_tokens="1200", pages="3")
    # 200 + 12000 + 1.5, rounded up once.
    assert answer["receipt"]["payment"]["authorized_atomic"] == str(MAXIMUM)
    assert answer["receipt"]["payment"]["settled_atomic"] == "12202"
    assert answer["receipt"]["payment"]["scheme"] == "upto"
    price = answer["receipt"]["price"]
    assert (price["calculation_mode"], price["label"]) == ("usage", "up to 0.50 USDC")
    listed = answer["transaction"]
    assert (listed["authorized_atomic"], listed["settled_atomic"]) == (str(MAXIMUM), "12202")
    response = SettleResponse.model_validate(decode_header(answer["payment_response"]))
    assert (response.success, response.amount, response.payer) == (True, "12202", seller.wallet.address)
    assert get_balances(seller) == (before[0] - 12_202, before[1] + 12_202)


def test_before_the_values_are_reported_nothing_is_settled(seller: ApiClient) -> None:
    listed = seller.transaction(seller.buy("completion"))
    assert listed["authorized_atomic"] == str(MAXIMUM)
    assert "settled_atomic" not in listed


def test_failed_work_charges_nothing(seller: ApiClient) -> None:
    before, bought = get_balances(seller), seller.buy("completion")
    assert seller.fail(bought).json()["status"] == "failed"
    assert get_balances(seller) == before
    assert "settled_atomic" not in seller.transaction(bought)


@pytest.mark.parametrize(("tokens", "exceeds"), [("49980.1", True), ("49980", False)])
def test_a_sum_above_the_maximum_settles_the_maximum_and_is_told(
    seller: ApiClient, caplog: pytest.LogCaptureFixture, tokens: str, exceeds: bool
) -> None:
    with caplog.at_level(logging.WARNING, "faregate.service"):
        answer = complete(seller, output_tokens=tokens)
    assert answer["receipt"]["payment"]["settled_atomic"] == str(MAXIMUM)
    told = f"{answer['transaction_id']} used more than its payer has authorized"
    assert (told in caplog.text, "used more" in caplog.text) == (exceeds, exceeds)


def test_a_use_of_nothing_settles_the_least_amount(seller: ApiClient) -> None:
    assert complete(seller, output_tokens="0")["receipt"]["payment"]["settled_atomic"] == "300"


def test_what_has_no_rate_costs_nothing(seller: ApiClient) -> None:
    answer = complete(seller, output_tokens="100", note="999999")
    assert answer["receipt"]["payment"]["settled_atomic"] == "1200"


def test_a_required_value_must_be_reported(seller: ApiClient) -> None:
    bought = seller.buy("completion")
    message = assert_error(seller.complete(bought, values={"pages": "1"}), 422, "invalid_request")
    assert "output-tokens" in message
    answer = seller.complete(bought, values={"output-tokens": "100"})
    assert answer.json()["receipt"]["payment"]["settled_atomic"] == "1200"


def test_the_amount_is_computed_once(seller: ApiClient) -> None:
    before, bought = get_balances(seller), seller.buy("completion")
    first = seller.complete(bought, values={"output-tokens": "100"})
    assert seller.complete(bought, values={"output-tokens": "100"}).json() == first.json()
    refused = seller.complete(bought, values={"output-tokens": "101"})
    assert "other values" in assert_error(refused, 409, "invalid_request")
    assert seller.transaction(bought)["settled_atomic"] == "1200"
    assert get_balances(seller) == (before[0] - 1200, before[1] + 1200)


def test_the_maximum_is_reserved_until_the_values_are_reported(seller: ApiClient) -> None:
    seller.service.set_balance(seller.wallet.address, MAXIMUM + 1199)
    first = seller.buy("completion")
    assert_error(seller.access("completion", seller.proof("completion")), 402, "payment_required")
    seller.complete(first, values={"output-tokens": "99.9"})
    # What was not used can be spent again.
    assert seller.service.balance(seller.wallet.address) == MAXIMUM
    seller.buy("completion")


def test_a_payment_that_settles_later_settles_the_same(seller: ApiClient) -> None:
    seller.service.settle_after("*", SettlementRule(manual=True))
    before, bought = get_balances(seller), seller.buy("completion")
    assert seller.complete(bought, values={"output-tokens": "100"}).status_code == 202
    assert "settled_atomic" not in seller.transaction(bought)
    assert get_balances(seller) == before
    seller.service.settle(bought.id)
    assert seller.transaction(bought)["settled_atomic"] == "1200"
    assert get_balances(seller) == (before[0] - 1200, before[1] + 1200)


@pytest.mark.parametrize(("moved", "settled"), [(5000, 5000), (900_000, MAXIMUM)])
def test_a_facilitator_that_moves_another_amount(
    seller: ApiClient, caplog: pytest.LogCaptureFixture, moved: int, settled: int
) -> None:
    seller.service.settle_after("*", SettlementRule(after_seconds=0, amount=moved))
    before = get_balances(seller)
    with caplog.at_level(logging.WARNING, "faregate.service"):
        answer = complete(seller, output_tokens="100")
    # The books never show a sum that was not moved.
    assert get_balances(seller) == (before[0] - settled, before[1] + settled)
    assert answer["receipt"]["payment"]["settled_atomic"] == str(settled)
    assert decode_header(answer["payment_response"])["amount"] == str(settled)
    assert answer["transaction"]["settled_atomic"] == str(settled)
    assert f"settled {settled} atomic units instead of 1200;" in caplog.text


def test_a_payment_that_settled_for_less_than_was_used_proves_nothing(
    seller: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    seller.service.settle_after("*", SettlementRule(after_seconds=0, amount=1))
    before, bought = get_balances(seller), seller.buy("completion")
    used = {"output-tokens": "100"}
    with caplog.at_level(logging.WARNING, "faregate.service"):
        withheld = seller.complete(bought, values=used)
    assert (withheld.status_code, withheld.json()["status"]) == (202, "reconciling")
    assert "payment-response" not in withheld.headers
    assert seller.complete(bought, values=used).status_code == 202
    assert seller.transaction(bought)["status"] == "reconciling"
    assert get_balances(seller) == (before[0] - 1, before[1] + 1)
    assert "settled 1 atomic units instead of 1200; the seller must not release its result" in caplog.text
    seller.service.settle(bought.id)
    answer = seller.complete(bought, values=used)
    assert decode_header(answer.headers["payment-response"])["amount"] == "1"
    assert seller.transaction(bought)["settled_atomic"] == "1"
    assert get_balances(seller) == (before[0] - 1, before[1] + 1)


def test_a_facilitator_that_moves_nothing(seller: ApiClient) -> None:
    seller.service.settle_after("*", SettlementRule(until_expiry=True))
    before, bought = get_balances(seller), seller.buy("completion")
    assert seller.complete(bought, values={"output-tokens": "100"}).status_code == 202
    seller.clock.advance(61)
    assert seller.transaction(bought)["status"] == "failed"
    assert "settled_atomic" not in seller.transaction(bought)
    assert get_balances(seller) == before


def test_a_fixed_price_is_moved_whole_by_a_faulty_facilitator_too(api: ApiClient) -> None:
    api.service.settle_after("*", SettlementRule(after_seconds=0, amount=5000))
    assert api.complete(api.buy()).json()["receipt"]["payment"]["settled_atomic"] == "10000"


def test_a_saved_state_has_what_was_used(seller: ApiClient) -> None:
    seller.service.settle_after("*", SettlementRule(manual=True))
    settled, otherwise, waiting, open_one = (seller.buy("completion") for _ in range(4))
    for bought, tokens in ((settled, "100"), (otherwise, "150"), (waiting, "200")):
        seller.complete(bought, values={"output-tokens": tokens})
    seller.service.settle(settled.id)
    seller.service.settle_after(otherwise.id, SettlementRule(after_seconds=0, amount=7))
    document = seller.emulator.export()
    again = Emulator(seller.service.account, clock=seller.clock)
    again.load_state(json.dumps(document))
    assert again.export() == document
    seller.use(again)
    assert seller.transaction(otherwise)["status"] == "reconciling"
    seller.service.settle(otherwise.id)
    seller.service.settle(waiting.id)
    seller.service.settle_after("*", None)
    seller.complete(open_one, values={"output-tokens": "300"})
    found = [
        seller.transaction(bought)["settled_atomic"] for bought in (settled, otherwise, waiting, open_one)
    ]
    assert found == ["1200", "7", "2200", "3200"]


@pytest.mark.parametrize("rule", [{"after_seconds": 0, "amount": 0}, {"until_expiry": True, "amount": 1}])
def test_rules_that_cannot_be(rule: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"transfer is of 0|moves nothing"):
        SettlementRule(**rule)


def test_a_payment_keeps_the_rates_that_it_was_authorized_for(seller: ApiClient) -> None:
    bought = seller.buy("completion")
    dearer = {"rates": {"output-tokens": "1000"}}
    seller.service.publish(
        "completion",
        Revision.model_validate(
            {"amount": "900000", "values": [{"name": "output-tokens", "required": True}], "usage": dearer}
        ),
    )
    answer = seller.complete(bought, values={"output-tokens": "100"})
    assert answer.json()["receipt"]["payment"]["settled_atomic"] == "1200"


def test_the_wallet_of_a_fixed_price_cannot_pay_it(seller: ApiClient) -> None:
    instructions = decode_header(seller.instructions("completion"))
    [terms] = instructions["accepts"]
    other = {**instructions, "accepts": [{**terms, "scheme": "exact"}]}
    refused = seller.access("completion", seller.wallet.pay(encode_header(other)))
    assert_error(refused, 402, "payment_required")
