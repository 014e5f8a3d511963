"""spec: POST /transactions/{id}/complete, States, Completion result."""

import json
from datetime import datetime
from typing import Any

import pytest
from x402.schemas import SettleResponse

from faregate.emulator import LIVE_KEY
from tests.support.headers import decode_header, encode_header

from .seller import ApiClient, Purchase, assert_error, is_id

ALWAYS = {"transaction_id", "status", "payment_response", "receipt", "transaction_hash"}
METADATA = {
    "duration_ms": 12,
    "response_content_type": "application/json",
    "response_size_bytes": 345,
    "response_status": 200,
}


def test_succeeded_work_takes_the_payment(api: ApiClient) -> None:
    bought = api.buy()
    response = api.complete(bought, values={"input-tokens": "12.5"}, resource_execution=METADATA)
    assert response.status_code == 200
    body = response.json()
    assert set(body) == ALWAYS
    assert body["transaction_id"] == bought.id
    assert body["status"] == "succeeded"
    assert body["transaction_hash"].startswith("0x")
    assert len(body["transaction_hash"]) == 66
    assert body["receipt"]["transaction_id"] == bought.id
    assert response.headers["payment-response"] == body["payment_response"]


def test_the_payment_response_is_an_x402_settlement_response(api: ApiClient) -> None:
    body = api.complete(api.buy()).json()
    found = SettleResponse.model_validate(decode_header(body["payment_response"]))
    assert found.success is True
    assert found.transaction == body["transaction_hash"]
    assert found.network == "eip155:84532"
    assert found.payer == api.wallet.address
    assert found.amount == "10000"


def test_the_receipt_has_every_field(api: ApiClient) -> None:
    bought = api.buy()
    receipt = api.complete(bought).json()["receipt"]
    tenant = api.service.account
    assert is_id("rct", receipt.pop("id"))
    assert is_id("prc", receipt["price"].pop("id"))
    assert is_id("org", receipt["seller"].pop("id"))
    issued = receipt.pop("issued_at")
    assert len(issued) == len("2026-01-01T00:00:00.000Z")
    assert datetime.fromisoformat(issued) == api.clock()
    assert receipt == {
        "transaction_id": bought.id,
        "environment": "test",
        "environment_key": "test",
        "schema_version": 1,
        "payment": {
            "asset": "USDC",
            "asset_id": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
            "authorized_atomic": "10000",
            "settled_atomic": "10000",
            "network": "eip155:84532",
            "payer": api.wallet.address,
            "recipient": tenant.seller.pay_to,
            "scheme": "exact",
            "transaction_hash": api.transaction(bought)["transaction_hash"],
        },
        "price": {"calculation_mode": "fixed", "currency": "USD", "label": "0.01 USDC"},
        "resource": {
            "id": api.service.resource_id("text_summary"),
            "name": "Text summary",
            "url": "https://seller.example/text_summary",
        },
        "seller": {"name": tenant.seller.name},
    }


def test_a_receipt_is_issued_to_the_millisecond(api: ApiClient) -> None:
    api.clock.advance(0.123_456)
    bought = api.buy()
    assert api.complete(bought).json()["receipt"]["issued_at"] == "2026-01-01T00:00:00.123Z"
    assert api.transaction(bought)["settled_at"] == "2026-01-01T00:00:00.123456Z"


def test_a_euro_price_and_a_live_receipt_say_so(api: ApiClient) -> None:
    euro = api.complete(api.buy("euro_report")).json()["receipt"]
    assert euro["price"]["currency"] == "EUR"
    assert euro["payment"]["asset"] == "EURC"
    api.key = LIVE_KEY
    live = api.complete(api.buy()).json()["receipt"]
    assert live["environment"] == live["environment_key"] == "live"
    assert live["payment"]["network"] == "eip155:8453"


def test_settlement_moves_the_balance(api: ApiClient) -> None:
    address, seller = api.wallet.address, api.service.account.seller.pay_to
    before = api.service.balance(address)
    bought = api.buy()
    assert api.service.balance(address) == before
    api.complete(bought)
    api.complete(bought)
    assert api.service.balance(address) == before - 10_000
    assert api.service.balance(seller) == 10_000
    assert api.service.balance(address, "EURC") == before
    assert api.service.balance(address, "USDC", "live") == before


def test_failed_work_takes_nothing(api: ApiClient) -> None:
    before = api.service.balance(api.wallet.address)
    bought = api.buy()
    response = api.fail(bought)
    assert response.status_code == 200
    assert response.json() == {
        "transaction_id": bought.id,
        "status": "failed",
        "payment_response": None,
        "receipt": None,
        "transaction_hash": None,
    }
    assert "payment-response" not in response.headers
    assert api.transaction(bought)["status"] == "failed"
    assert api.service.balance(api.wallet.address) == before


@pytest.mark.parametrize(
    ("resource", "status"), [("slow_settlement", "settling"), ("failing_settlement", "reconciling")]
)
def test_an_unconfirmed_payment_is_202_with_nulls(api: ApiClient, resource: str, status: str) -> None:
    bought = api.buy(resource)
    response = api.complete(bought)
    assert response.status_code == 202
    assert set(response.json()) == ALWAYS
    assert response.json()["transaction_id"] == bought.id
    assert response.json()["status"] == status
    assert [response.json()[name] for name in ("payment_response", "receipt", "transaction_hash")] == [
        None
    ] * 3
    assert "payment-response" not in response.headers
    assert response.headers["retry-after"] == "1"


def test_the_same_again_is_the_stored_result_byte_for_byte(api: ApiClient) -> None:
    bought = api.buy()
    first = api.complete(bought, values={"input-tokens": "1"})
    api.clock.advance(3600)
    again = api.complete(bought, values={"input-tokens": "1"})
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["payment-response"] == first.headers["payment-response"]
    failed = api.buy()
    assert api.fail(failed).content == api.fail(failed).content


def test_another_failure_code_or_metadata_changes_nothing(api: ApiClient) -> None:
    failed, bought = api.buy(), api.buy()
    assert api.fail(failed).content == api.fail(failed, "interrupted").content
    first = api.complete(bought, resource_execution=METADATA)
    assert api.complete(bought).content == first.content


def test_another_outcome_after_a_final_one_is_409(api: ApiClient) -> None:
    bought, failed = api.buy(), api.buy()
    api.complete(bought)
    api.fail(failed)
    assert_error(api.fail(bought), 409, "invalid_request")
    assert_error(api.complete(failed), 409, "invalid_request")
    assert api.transaction(bought)["status"] == "succeeded"
    assert api.transaction(failed)["status"] == "failed"


def test_another_outcome_while_settling_is_409(api: ApiClient) -> None:
    bought = api.buy("slow_settlement")
    api.complete(bought)
    assert_error(api.fail(bought), 409, "invalid_request")


def test_other_values_the_second_time_are_409(api: ApiClient) -> None:
    bought = api.buy()
    api.complete(bought, values={"input-tokens": "1"})
    assert_error(api.complete(bought, values={"input-tokens": "2"}), 409, "invalid_request")


def test_an_unknown_transaction_is_404(api: ApiClient) -> None:
    bought = api.buy()
    for identifier in ("txn_0193e1f0a1b27c3d8e4f5a6b7c8d9e0f", "txn_1", "x", bought.id.upper()):
        wrong = Purchase(identifier, bought.proof, bought.revision_id)
        assert_error(api.complete(wrong), 404, "transaction_not_found")


def test_a_transaction_of_the_other_environment_is_404(api: ApiClient) -> None:
    bought = api.buy()
    api.key = LIVE_KEY
    assert_error(api.complete(bought), 404, "transaction_not_found")


def test_another_revision_is_409(api: ApiClient) -> None:
    bought = api.buy()
    other = api.service.revision_id("daily_report")
    assert_error(api.complete(bought, revision_id=other), 409, "revision_mismatch")
    assert api.complete(bought).status_code == 200


def test_another_proof_than_the_authorized_one_is_422(api: ApiClient) -> None:
    bought, other = api.buy(), api.buy()
    assert_error(api.complete(bought, other.proof), 422, "invalid_request")
    assert_error(api.complete(bought, "garbage"), 422, "invalid_request")
    assert api.transaction(bought)["status"] == "authorized"


def test_another_encoding_of_the_proof_is_another_proof(api: ApiClient) -> None:
    bought = api.buy()
    payload = decode_header(bought.proof)
    payload.pop("resource")
    assert_error(api.complete(bought, encode_header(payload)), 422, "invalid_request")
    assert api.complete(bought).status_code == 200


def test_the_proof_is_required_once(api: ApiClient) -> None:
    bought = api.buy()
    body = {"revision_id": bought.revision_id, "outcome": "succeeded", "values": {}}
    path = f"/transactions/{bought.id}/complete"
    assert_error(api.post(path, body), 422, "invalid_request")
    twice = [("PAYMENT-SIGNATURE", bought.proof)] * 2
    assert_error(api.raw(path, json.dumps(body).encode(), twice), 422, "invalid_request")
    assert api.complete(bought).status_code == 200


def test_completing_after_valid_before_fails_the_payment(api: ApiClient) -> None:
    before = api.service.balance(api.wallet.address)
    bought = api.buy()
    api.clock.advance(60)
    response = api.complete(bought)
    assert response.status_code == 200
    assert response.json()["status"] == "failed"
    assert response.json()["receipt"] is None
    assert "payment-response" not in response.headers
    assert api.service.balance(api.wallet.address) == before


def test_completing_just_before_valid_before_succeeds(api: ApiClient) -> None:
    bought = api.buy()
    api.clock.advance(59.9)
    assert api.complete(bought).json()["status"] == "succeeded"


BAD_BODIES: list[tuple[str, dict[str, Any]]] = [
    ("no outcome", {"outcome": ...}),
    ("unknown outcome", {"outcome": "done"}),
    ("outcome null", {"outcome": None}),
    ("no revision", {"revision_id": ...}),
    ("bad revision", {"revision_id": "acr_1"}),
    ("no values", {"values": ...}),
    ("values null", {"values": None}),
    ("values list", {"values": []}),
    ("extra", {"extra": 1}),
    ("failure code on success", {"failure_code": "a"}),
    ("metadata list", {"resource_execution": []}),
    ("metadata extra", {"resource_execution": {"headers": {}}}),
    ("metadata negative", {"resource_execution": {"duration_ms": -1}}),
    ("metadata float", {"resource_execution": {"duration_ms": 1.5}}),
    ("metadata text", {"resource_execution": {"response_size_bytes": "1"}}),
    ("metadata bool", {"resource_execution": {"response_size_bytes": True}}),
    ("metadata huge", {"resource_execution": {"response_size_bytes": 2**53}}),
    ("metadata status", {"resource_execution": {"response_status": 99}}),
    ("metadata long", {"resource_execution": {"response_content_type": "a" * 256}}),
    ("unknown value", {"values": {"pages": "1"}}),
    ("bad name", {"values": {"Input-Tokens": "1"}}),
    ("empty name", {"values": {"": "1"}}),
    ("long name", {"values": {"a" * 101: "1"}}),
    *(
        (f"decimal {text!r}", {"values": {"input-tokens": text}})
        for text in (
            *(1, 1.5, None, "", "-1", "+1", "01", "1.", ".5", "1e3", " 1", "1\n", "1,5", "NaN"),
            *("\u0661", "1." + "0" * 13, "1" * 19),
        )
    ),
]


def refuse_body(api: ApiClient, body: dict[str, Any]) -> Purchase:
    """Complete a new purchase with a body that is refused; what is `...` is left out."""
    bought = api.buy()
    body = {"revision_id": bought.revision_id, **body}
    body = {name: value for name, value in body.items() if value is not ...}
    response = api.post(f"/transactions/{bought.id}/complete", body, bought.proof)
    assert_error(response, 422, "invalid_request")
    return bought


@pytest.mark.parametrize("change", [body for _, body in BAD_BODIES], ids=[name for name, _ in BAD_BODIES])
def test_a_succeeded_body_that_breaks_a_rule_is_422_and_leaves_it_open(
    api: ApiClient, change: dict[str, Any]
) -> None:
    bought = refuse_body(api, {"outcome": "succeeded", "values": {}, **change})
    assert api.complete(bought).json()["status"] == "succeeded"


@pytest.mark.parametrize("text", ["0", "1", "0.5", "9" * 18, "9" * 18 + "." + "9" * 12, "0.000000000001"])
def test_decimals_within_the_limits_are_taken(api: ApiClient, text: str) -> None:
    assert api.complete(api.buy(), values={"input-tokens": text}).status_code == 200


def test_a_required_value_must_be_reported(api: ApiClient) -> None:
    bought = api.buy("token_meter")
    message = assert_error(api.complete(bought), 422, "invalid_request")
    assert "input_tokens" in message
    assert api.complete(bought, values={"input_tokens": "7"}).json()["status"] == "succeeded"


@pytest.mark.parametrize(
    "change",
    [
        {"failure_code": ...},
        {"failure_code": ""},
        {"failure_code": "a" * 101},
        {"failure_code": "a b"},
        {"failure_code": "a\n"},
        {"failure_code": "\u00e9"},
        {"failure_code": None},
        {"failure_code": 7},
        {"extra": 1},
        {"values": {}},
        {"revision_id": ...},
    ],
    ids=repr,
)
def test_a_failed_body_that_breaks_a_rule_is_422_and_leaves_it_open(
    api: ApiClient, change: dict[str, Any]
) -> None:
    bought = refuse_body(api, {"outcome": "failed", "failure_code": "a", **change})
    assert api.transaction(bought)["status"] == "authorized"


@pytest.mark.parametrize("code", ["a", "A-z0.9:_", "a" * 100])
def test_failure_codes_within_the_limits_are_taken(api: ApiClient, code: str) -> None:
    assert api.fail(api.buy(), code).json()["status"] == "failed"


@pytest.mark.parametrize("metadata", [None, {}, METADATA, {"response_status": 599}])
def test_metadata_is_optional_on_both_outcomes(api: ApiClient, metadata: object) -> None:
    assert api.complete(api.buy(), resource_execution=metadata).status_code == 200
    bought = api.buy()
    body = {
        "revision_id": bought.revision_id,
        "outcome": "failed",
        "failure_code": "a",
        "resource_execution": metadata,
    }
    path = f"/transactions/{bought.id}/complete"
    assert api.post(path, body, bought.proof).json()["status"] == "failed"
