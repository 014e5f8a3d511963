"""spec: POST /merchant/v1/access, What the service does (rules 1 to 3), States."""

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest

from faregate.emulator import LIVE_KEY, Revision, SettlementRule, Value
from faregate.emulator.ledger import SimulatedLedger
from faregate.rules.payments import PaymentRefused, PaymentVerified
from faregate.x402.models import SignedPayment, Terms
from tests.support.headers import decode_header, encode_header

from .flask_seller import FlaskSeller
from .ledgers import UnreachableLedger
from .seller import ApiClient, assert_error, is_id
from .services import MerchantService


def test_without_proof_access_is_402_with_instructions(api: ApiClient) -> None:
    response = api.access()
    assert_error(response, 402, "payment_required")
    assert decode_header(response.headers["payment-required"])["x402Version"] == 2


def test_with_a_good_proof_access_gives_a_transaction(api: ApiClient) -> None:
    response = api.access(proof=api.proof())
    assert response.status_code == 200
    assert set(response.json()) == {"transaction_id"}
    assert is_id("txn", response.json()["transaction_id"])
    assert "payment-required" not in response.headers


def test_free_access_has_a_null_transaction_id(api: ApiClient) -> None:
    response = api.access("free_notes")
    assert response.status_code == 200
    assert response.json() == {"transaction_id": None}
    assert api.listed("/transactions")["count"] == 0


def test_free_access_does_not_look_at_a_proof(api: ApiClient) -> None:
    proof = api.proof("daily_report")
    assert api.access("free_notes", proof).json() == {"transaction_id": None}
    assert api.access("free_notes", "garbage").json() == {"transaction_id": None}
    assert api.access("daily_report", proof).status_code == 200


def test_require_payment_decides_whether_access_is_free(api: ApiClient) -> None:
    api.service.require_payment("text_summary", required=False)
    assert api.access().json() == {"transaction_id": None}
    api.service.require_payment("text_summary")
    assert api.access().status_code == 402


def test_the_transaction_is_authorized_before_completion(api: ApiClient) -> None:
    bought = api.buy()
    found = api.transaction(bought)
    assert found["status"] == "authorized"
    assert found["authorized_atomic"] == "10000"


def test_the_same_purchase_again_is_the_same_open_transaction(api: ApiClient) -> None:
    bought = api.buy()
    again = api.access(proof=bought.proof)
    assert again.status_code == 200
    assert again.json() == {"transaction_id": bought.id}
    assert api.listed("/transactions")["count"] == 1


def test_a_used_authorization_in_other_bytes_gets_nothing(api: ApiClient) -> None:
    """It is public once it is settled; only its payer knows the bytes that were sent."""
    bought = api.buy("slow_settlement")
    for _ in ("authorized", "settling", "settling", "succeeded"):
        for text in (other_encoding(bought.proof), upper_hex(bought.proof)):
            assert text != bought.proof
            response = api.access("slow_settlement", text)
            assert assert_error(response, 402, "payment_required") == "the authorization was already used"
            assert bought.id not in response.text
        api.complete(bought)
    assert api.transaction(bought)["status"] == "succeeded"


def archive_superseded(service: MerchantService) -> None:
    service.publish("text_summary", Revision(amount=7))
    service.archive("text_summary")


SELLER_CHANGES: dict[str, Callable[[MerchantService], object]] = {
    "nothing": lambda service: None,
    "superseded": lambda service: service.publish("text_summary", Revision(amount=7)),
    "another asset": lambda service: service.publish("text_summary", Revision(amount=7, asset="EURC")),
    "archived": lambda service: service.archive("text_summary"),
    "superseded and archived": archive_superseded,
    "free": lambda service: service.require_payment("text_summary", required=False),
}
"""What a seller may do while a transaction is open."""


@pytest.mark.parametrize("change", SELLER_CHANGES)
@pytest.mark.parametrize("status", ["authorized", "settling"])
def test_an_open_transaction_is_found_whatever_the_seller_changed(
    api: ApiClient, change: str, status: str
) -> None:
    bought, before = api.buy(), api.access_body()
    if status == "settling":
        api.service.settle_after(bought.id, SettlementRule(manual=True))
        api.complete(bought)
    SELLER_CHANGES[change](api.service)
    now = api.access_body(settlement_asset="EURC" if change == "another asset" else "USDC")
    for body in (before, now):
        edited = {**body["resource"], "description": "edited", "mime_type": "text/html"}
        for asked in (body, {**body, "resource": edited}):
            again = api.post("/access", asked, bought.proof)
            assert again.status_code == (202 if status == "settling" else 200), again.text
            assert again.json() == {"transaction_id": bought.id}
    assert api.listed("/transactions")["count"] == 1


def test_an_open_transaction_can_be_completed_after_its_resource_was_archived(api: ApiClient) -> None:
    bought = api.buy()
    api.service.archive("text_summary")
    assert api.complete(bought).json()["status"] == "succeeded"


def test_an_open_transaction_whose_authorization_expired_is_402(api: ApiClient) -> None:
    bought = api.buy()
    api.clock.advance(59.999)
    assert api.access(proof=bought.proof).json() == {"transaction_id": bought.id}
    api.clock.advance(0.001)
    response = api.access(proof=bought.proof)
    assert "has expired: the service sends no payment" in assert_error(response, 402, "payment_required")
    assert api.listed("/transactions")["count"] == 1


def test_a_payment_that_is_settling_when_its_authorization_expires_is_still_202(api: ApiClient) -> None:
    api.service.settle_after("*", SettlementRule(manual=True))
    bought = api.buy()
    api.complete(bought)
    api.clock.advance(3600)
    assert api.access(proof=bought.proof).status_code == 202


def test_the_same_purchase_while_settling_is_202_with_the_id(api: ApiClient) -> None:
    for resource in ("slow_settlement", "failing_settlement"):
        bought = api.buy(resource)
        assert api.complete(bought).status_code == 202
        again = api.access(resource, bought.proof)
        assert again.status_code == 202
        assert again.json() == {"transaction_id": bought.id}
        assert again.headers["retry-after"] == "1"


def test_the_same_purchase_once_final_is_402(api: ApiClient) -> None:
    succeeded, failed = api.buy(), api.buy()
    api.complete(succeeded)
    api.fail(failed)
    for bought in (succeeded, failed):
        response = api.access(proof=bought.proof)
        assert "already used" in assert_error(response, 402, "payment_required")
        assert response.headers["payment-required"]


def test_the_reason_is_that_of_this_payment(api: ApiClient) -> None:
    """Its own payer is told how it ended, in the body and in the instructions."""
    succeeded, failed, rejected = api.buy(), api.buy(), api.buy()
    api.complete(succeeded)
    api.fail(failed)
    api.service.settle_after(rejected.id, SettlementRule(after_seconds=0, to="failed"))
    assert api.complete(rejected).json()["status"] == "failed"
    used = "the authorization was already used"
    unsent = f"{used}: its work failed, and the service sends no payment for it"
    uncharged = f"{used}: its payment failed, and nothing was charged"
    for bought, reason in ((succeeded, used), (failed, unsent), (rejected, uncharged)):
        response = api.access(proof=bought.proof)
        assert assert_error(response, 402, "payment_required") == reason
        assert decode_header(response.headers["payment-required"])["error"] == reason


def test_a_used_authorization_buys_nothing_else(api: ApiClient) -> None:
    bought = api.buy()
    other_url = api.access_body(resource={"url": "https://seller.example/b", "mime_type": "text/plain"})
    other_resource = api.access_body("slow_settlement", resource=api.access_body()["resource"])
    for body in (other_url, other_resource, api.access_body("slow_settlement")):
        response = api.post("/access", body, bought.proof)
        assert "already used" in assert_error(response, 402, "payment_required")
        assert bought.id not in response.text


def test_the_nonce_of_an_authorization_cannot_be_signed_twice(api: ApiClient) -> None:
    nonce = "0x" + "ab" * 32
    instructions = api.instructions()
    assert api.access(proof=api.wallet.pay(instructions, nonce=nonce)).status_code == 200
    api.clock.advance(1)
    other = api.access(proof=api.wallet.pay(instructions, nonce=nonce))
    assert "already used" in assert_error(other, 402, "payment_required")


def test_an_unknown_or_foreign_revision_is_422(api: ApiClient) -> None:
    unknown = api.access_body(revision_id="acr_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f")
    foreign = api.access_body(revision_id=api.service.revision_id("text_summary", "live"))
    for body in (unknown, foreign):
        assert_error(api.post("/access", body), 422, "invalid_request")
    assert api.post("/access", foreign, key=LIVE_KEY).status_code == 402


def test_an_archived_resource_is_422(api: ApiClient) -> None:
    assert "archived" in assert_error(api.access("old_report"), 422, "invalid_request")
    api.service.archive("daily_report")
    assert "archived" in assert_error(api.access("daily_report"), 422, "invalid_request")


def test_only_the_active_revision_is_sold(api: ApiClient) -> None:
    before = api.access_body()
    api.service.publish("text_summary", Revision(amount=7, values=(Value(name="pages"),)))
    assert "active" in assert_error(api.post("/access", before), 422, "invalid_request")
    assert decode_header(api.instructions())["accepts"][0]["amount"] == "7"


def test_a_transaction_keeps_the_revision_it_was_authorized_for(api: ApiClient) -> None:
    before = api.complete(api.buy()).json()["receipt"]["price"]
    bought = api.buy()
    api.service.publish("text_summary", Revision(amount=7, price_label="Seven"))
    done = api.complete(bought, values={"input-tokens": "3"}).json()
    assert done["status"] == "succeeded"
    assert done["receipt"]["payment"]["settled_atomic"] == "10000"
    assert done["receipt"]["price"] == before
    after = api.complete(api.buy()).json()["receipt"]["price"]
    assert (before["label"], after["label"]) == ("0.01 USDC", "Seven")
    assert before["id"] != after["id"]


def test_the_settlement_asset_must_be_that_of_the_price(api: ApiClient) -> None:
    for resource, asset in (("text_summary", "EURC"), ("euro_report", "USDC")):
        body = api.access_body(resource, settlement_asset=asset)
        assert_error(api.post("/access", body), 422, "invalid_request")


def test_two_proof_headers_are_422(api: ApiClient) -> None:
    proof = api.proof()
    content = json.dumps(api.access_body()).encode()
    response = api.raw("/access", content, [("PAYMENT-SIGNATURE", proof), ("payment-signature", proof)])
    assert_error(response, 422, "invalid_request")
    assert api.listed("/transactions")["count"] == 0


def test_a_refused_proof_loses_nothing(api: ApiClient) -> None:
    proof = api.proof("daily_report")
    assert api.access("text_summary", proof).status_code == 402
    assert api.listed("/payers")["count"] == 0
    assert api.access("daily_report", proof).status_code == 200


def test_access_is_503_while_payments_cannot_be_verified(api: ApiClient) -> None:
    ledger = UnreachableLedger()
    api.use_account(ledger=ledger)
    proof = api.proof()
    response = api.access(proof=proof)
    assert_error(response, 503, "internal_error")
    assert response.headers["retry-after"] == "1"
    # Clients sign a new payment for every instructions they see, and this one is good.
    assert "payment-required" not in response.headers
    assert api.listed("/transactions")["count"] == 0
    ledger.reachable = True
    assert api.access(proof=proof).status_code == 200


class RecordingLedger(SimulatedLedger):
    """Keeps what a facilitator would be told for catalogues."""

    def __init__(self) -> None:
        super().__init__()
        self.echoed: list[Mapping[str, Any]] = []

    def verify(
        self, payment: SignedPayment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified | PaymentRefused:
        self.echoed.append(payment.echoed)
        return super().verify(payment, terms, now=now, committed=committed)


def test_a_payer_cannot_have_a_seller_listed_at_another_url(api: ApiClient) -> None:
    ledger = RecordingLedger()
    api.use_account(ledger=ledger)
    extensions: dict[str, Any] = {"bazaar": {"info": {}}}
    changes: tuple[dict[str, Any], ...] = ({}, {"url": "https://thief.example/report"}, {"url": None})
    for change in changes:
        payment = decode_header(api.proof())
        resource = {**payment["resource"], **change}
        proof = encode_header({**payment, "resource": resource, "extensions": extensions})
        # It is paid all the same: the payer's client may be older than the seller's address.
        assert api.access(proof=proof).status_code == 200

    honest, *others = ledger.echoed
    assert honest["extensions"] == extensions
    assert honest["resource"]["url"] == api.access_body()["resource"]["url"]
    assert others == [{}, {}]


def test_a_seller_asks_nobody_to_pay_again_while_payments_cannot_be_verified(api: ApiClient) -> None:
    ledger = UnreachableLedger()
    api.use_account(ledger=ledger)
    with closing(FlaskSeller(api, "good")) as seller:
        refused = seller.visit()
        assert_error(refused, 503, "payment_service_unavailable")
        assert refused.headers["retry-after"] == "1"
        assert "payment-required" not in refused.headers
        assert (seller.runs, seller.charged) == (0, 0)
        ledger.reachable = True
        assert seller.visit().json() == {"report": "Sunny."}
        assert (seller.runs, seller.charged) == (1, 50_000)


def other_encoding(proof: str) -> str:
    """The same payload with other spaces, key order and unsigned fields."""
    payload = decode_header(proof)
    payload["resource"] = {"url": "https://elsewhere.example"}
    return base64.b64encode(json.dumps(payload, indent=3, sort_keys=True).encode()).decode()


def upper_hex(proof: str) -> str:
    """The same payment with its hex in upper case."""
    payload = decode_header(proof)
    inner = payload["payload"]
    inner["signature"] = "0x" + inner["signature"][2:].upper()
    authorization = inner["authorization"]
    for name in ("from", "to", "nonce"):
        authorization[name] = "0x" + authorization[name][2:].upper()
    return encode_header(payload)
