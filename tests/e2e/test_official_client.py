"""The official x402 client pays the example seller: httpx and requests, asyncio and trio."""

from decimal import Decimal

import pytest
from x402.http.utils import decode_payment_required_header, decode_payment_response_header

from faregate.emulator import Revision, SettlementRule
from faregate.x402.tokens import TOKENS
from tests.e2e.example_seller import Market
from tests.e2e.payers import Payer, Refused

EURC = TOKENS["test", "EURC"]


def test_a_get_is_paid(seller: Market, payer: Payer) -> None:
    answer = payer.call("GET", f"{seller.seller}/report")

    assert answer.status_code == 200
    assert set(answer.json()) == {"report"}
    told = decode_payment_response_header(answer.headers["PAYMENT-RESPONSE"])
    [transaction] = seller.transactions()
    assert (told.success, told.transaction) == (True, transaction.transaction_hash)
    assert transaction.status == "succeeded"
    assert transaction.receipt is not None
    assert transaction.receipt.payment.payer == payer.address
    assert transaction.receipt.resource.url == f"{seller.seller}/report"
    assert seller.runs("report") == 1


def test_the_challenge_is_echoed_and_another_one_each_time(seller: Market, payer: Payer) -> None:
    for _ in range(2):
        assert payer.call("GET", f"{seller.seller}/report").status_code == 200

    [first, second] = seller.echoed()
    assert (first[0], second[0]) == (first[1], second[1])
    assert first[0] != second[0]
    assert {len(one) for one in (*first, *second)} == {64}


def test_a_post_is_paid_and_its_body_arrives(seller: Market, payer: Payer) -> None:
    answer = payer.call("POST", f"{seller.seller}/summary", {"text": "one two three four five six"})

    assert answer.status_code == 200
    assert answer.json() == {"summary": "one two three four five"}
    assert "PAYMENT-RESPONSE" in answer.headers
    assert [one.status for one in seller.transactions()] == ["succeeded"]


def test_each_call_pays_anew(seller: Market, payer: Payer) -> None:
    for _ in range(2):
        assert payer.call("GET", f"{seller.seller}/report").status_code == 200

    first, second = seller.transactions()
    assert first.transaction_hash != second.transaction_hash
    assert seller.runs("report") == 2


def test_failed_work_is_not_charged(seller: Market, payer: Payer) -> None:
    answer = payer.call("GET", f"{seller.seller}/broken")

    assert answer.status_code == 503
    assert answer.json() == {"detail": "the printer is out of paper"}
    assert "PAYMENT-RESPONSE" not in answer.headers
    [transaction] = seller.transactions()
    assert (transaction.status, transaction.settled_atomic) == ("failed", None)


def test_a_body_the_handler_refuses_is_not_charged(seller: Market, payer: Payer) -> None:
    answer = payer.call("POST", f"{seller.seller}/summary", {"no": "text"})

    assert answer.status_code == 422
    assert "PAYMENT-RESPONSE" not in answer.headers
    assert "succeeded" not in [one.status for one in seller.transactions()]
    assert seller.runs("summary") == 0


def test_eurc_is_refused_until_the_payer_allows_it(seller: Market, payer: Payer) -> None:
    with pytest.raises(Refused):
        payer.call("GET", f"{seller.seller}/euro")
    assert seller.transactions() == []

    payer.allow({"allowed_assets": [{"network": EURC.network, "asset": EURC.address}]})

    assert payer.call("GET", f"{seller.seller}/euro").status_code == 200
    [transaction] = seller.transactions()
    assert transaction.receipt is not None
    assert transaction.receipt.payment.asset == "EURC"
    assert seller.runs("euro") == 1


def test_more_than_a_dollar_is_refused_until_the_payer_allows_it(seller: Market, payer: Payer) -> None:
    seller.emulator.publish("daily_report", Revision(amount=1_000_001))
    with pytest.raises(Refused):
        payer.call("GET", f"{seller.seller}/report")
    assert seller.transactions() == []

    payer.allow({"max_amount_per_payment": "$1.01"})

    assert payer.call("GET", f"{seller.seller}/report").status_code == 200
    assert [one.settled_atomic for one in seller.transactions()] == [1_000_001]


def test_one_dollar_is_signed_unasked(seller: Market, payer: Payer) -> None:
    seller.emulator.publish("daily_report", Revision(amount=1_000_000))

    answer = payer.call("GET", f"{seller.seller}/report")

    assert answer.status_code == 200
    told = decode_payment_response_header(answer.headers["PAYMENT-RESPONSE"])
    assert Decimal(told.amount or 0) / 10**6 == 1


def test_an_empty_purse_gets_the_instructions_again(seller: Market, payer: Payer) -> None:
    token = TOKENS["test", "USDC"]
    seller.emulator.ledger.set_balance(token, payer.address, 1)  # type: ignore[attr-defined]  # the simulated ledger

    answer = payer.call("GET", f"{seller.seller}/report")

    assert answer.status_code == 402
    again = decode_payment_required_header(answer.headers["PAYMENT-REQUIRED"])
    assert "enough" in (again.error or "")
    assert seller.runs("report") == 0


def test_a_payment_that_fails_at_its_settlement_buys_nothing_and_the_next_one_does(
    seller: Market, payer: Payer
) -> None:
    """The client signs once a call: what comes back is for its owner, who is told that nothing was taken."""
    seller.emulator.settle_after("*", SettlementRule(after_seconds=0, to="failed"))

    failed = payer.call("GET", f"{seller.seller}/report")

    assert failed.status_code == 402
    [transaction] = seller.transactions()
    assert (transaction.status, transaction.settled_atomic) == ("failed", None)
    assert failed.json()["transaction_id"] == transaction.id
    assert "nothing was charged" in failed.json()["message"]
    assert decode_payment_required_header(failed.headers["PAYMENT-REQUIRED"]).accepts

    seller.emulator.settle_after("*", None)

    assert payer.call("GET", f"{seller.seller}/report").status_code == 200
    assert [one.status for one in seller.transactions()] == ["failed", "succeeded"]


def test_a_client_that_takes_a_202_for_the_end_is_charged_once(seller: Market, payer: Payer) -> None:
    """Each call signs a payment of its own. Only the first one runs, and the last one gets its result."""
    seller.emulator.settle_after("*", SettlementRule(manual=True))
    held = [payer.call("GET", f"{seller.seller}/report") for _ in range(2)]

    assert [answer.status_code for answer in held] == [202, 202]
    first, _ = seller.transactions()
    assert {answer.json()["transaction_id"] for answer in held} == {first.id}
    seller.emulator.settle(first.id)

    answer = payer.call("GET", f"{seller.seller}/report")
    assert (answer.status_code, set(answer.json())) == (200, {"report"})
    assert answer.headers["Faregate-Transaction"] == first.id
    assert [one.status for one in seller.transactions()] == ["succeeded", "failed", "failed"]
    assert seller.runs("report") == 1

    seller.emulator.settle_after("*", None)
    assert payer.call("GET", f"{seller.seller}/report").status_code == 200
    assert seller.runs("report") == 2
