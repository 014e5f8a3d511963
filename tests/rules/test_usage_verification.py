"""Whether a payment of the scheme `upto` meets its terms, without a chain."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from eth_account import Account

from faregate.rules.payments import PaymentRefused, PaymentVerified
from faregate.rules.verification import check_payment
from faregate.x402.headers import parse_payment
from faregate.x402.models import Terms
from faregate.x402.tokens import TOKENS
from tests.support.usage_payments import Change, encode_proof, pay_usage, sign_usage

USDC = TOKENS["test", "USDC"]
FACILITATOR, OTHER = "0x" + "Fa" * 20, "0x" + "0e" * 20
TERMS = Terms(USDC, 500_000, "0x" + "ab" * 20, 60, (FACILITATOR,))
KEY = "0x" + "11" * 32
PAYER = Account.from_key(KEY).address


def check(payload: dict[str, Any], terms: Terms = TERMS, later: float = 0) -> str:
    """Check a payload after so many seconds; return the reason of a refusal, or "valid"."""
    now = datetime.now(UTC) + timedelta(seconds=later)
    match check_payment(parse_payment(encode_proof(payload)), terms, now):
        case PaymentVerified(payer=payer):
            assert payer == PAYER
            return "valid"
        case PaymentRefused(reason=reason):
            return reason


def test_what_the_official_client_signs_is_valid() -> None:
    assert check(sign_usage(KEY, TERMS)) == "valid"


def test_any_of_the_facilitators_may_have_been_offered() -> None:
    assert check(sign_usage(KEY, TERMS), replace(TERMS, facilitators=(OTHER, FACILITATOR))) == "valid"


@pytest.mark.parametrize(
    ("offered", "required", "reason"),
    [
        ({"facilitators": (OTHER,)}, {}, f"witness.facilitator must be {FACILITATOR}"),
        ({"pay_to": OTHER}, {}, f"accepted.payTo must be {TERMS.pay_to}"),
        ({"amount": 499_999}, {}, "accepted.amount must be 500000"),
        ({"amount": 500_001}, {}, "accepted.amount must be 500000"),
        ({"token": TOKENS["test", "EURC"]}, {}, f"accepted.asset must be {USDC.address}"),
        ({"token": TOKENS["live", "USDC"]}, {}, "accepted.network must be eip155:84532"),
        ({"max_timeout_seconds": 5}, {}, "validBefore must be at least 6 seconds ahead"),
        ({"max_timeout_seconds": 700}, {}, "validBefore must be at most 660 seconds ahead"),
        ({}, {"facilitators": ()}, "accepted.scheme must be exact"),
    ],
)
def test_a_payment_of_other_terms_is_refused(
    offered: dict[str, Any], required: dict[str, Any], reason: str
) -> None:
    assert check(sign_usage(KEY, replace(TERMS, **offered)), replace(TERMS, **required)) == reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (("accepted", "scheme"), "accepted.scheme must be upto"),
        (("accepted", "amount"), "accepted.amount must be 500000"),
        (("accepted", "extra"), "accepted.extra.challenge must be"),
        (("payload", "permit2Authorization", "witness", "to"), "the authorization must pay"),
        (("payload", "permit2Authorization", "permitted", "amount"), "must be exactly 500000"),
        (("payload", "permit2Authorization", "witness", "validAfter"), "the signature is not the payer's"),
        (("payload", "permit2Authorization", "nonce"), "the signature is not the payer's"),
        (("payload", "permit2Authorization", "from"), "the signature is not the payer's"),
    ],
)
def test_what_the_payer_did_not_sign_is_refused(changed: tuple[str, ...], reason: str) -> None:
    values = {"scheme": "exact", "extra": {}, "to": OTHER, "from": OTHER, "amount": "1"}
    payload = Change(changed, values.get(changed[-1], "1")).apply(sign_usage(KEY, TERMS))
    assert reason in check(payload)


def test_neither_scheme_is_taken_for_the_other() -> None:
    payload = sign_usage(KEY, TERMS)
    fixed = replace(TERMS, facilitators=())
    # As if it had accepted a fixed price: a facilitator could take less than that.
    accepted = {**payload["accepted"], "scheme": "exact"}
    assert check({**payload, "accepted": accepted}, fixed) == "the payload must be one of the scheme exact"


def test_the_deadline_counts_from_the_clock() -> None:
    payload = sign_usage(KEY, TERMS)
    assert check(payload, later=53) == "valid"
    assert check(payload, later=62) == "validBefore must be at least 6 seconds ahead"


def test_a_payment_that_is_not_valid_yet_is_refused() -> None:
    payment = pay_usage(KEY, TERMS)
    payment = replace(payment, valid_after=int(datetime.now(UTC).timestamp()) + 5)
    assert check_payment(payment, TERMS, datetime.now(UTC)) == PaymentRefused("validAfter is in the future")
