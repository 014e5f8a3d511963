"""Check a payment as far as neither ledger nor chain is needed: its terms, and its signature. Pure.

Every payments backend starts here. What the catalog and earlier payments allow is decided by
`faregate.rules.operations.access`.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from faregate.rules.payments import PaymentRefused, PaymentVerified
from faregate.x402.eip712 import recover_signer
from faregate.x402.headers import CHALLENGE
from faregate.x402.models import SignedPayment, Terms

LEAD_SECONDS: Final = 6
"""An authorization must still be valid for this long, so that it can be settled."""
CLOCK_SECONDS: Final = 600
"""By how much a payer's clock may be ahead: x402 clients set `validAfter` this long before their own time."""
USED: Final = PaymentRefused("the authorization was already used")
PAYMENT_FAILED: Final = f"{USED.reason}: its payment failed, and nothing was charged"
WORK_FAILED: Final = f"{USED.reason}: its work failed, and the service sends no payment for it"
WORK_EXPIRED: Final = f"{USED.reason}, and has expired: the service sends no payment for it"
UNCHARGED: Final = frozenset((PAYMENT_FAILED, WORK_FAILED, WORK_EXPIRED))
"""Reasons of a 402 that rule out a charge of the payment that was sent: a payer may sign another one."""
_NO_CHALLENGE: Final = (
    f"accepted.extra.{CHALLENGE} must be that of the instructions: send `accepted` unchanged"
)
_CHALLENGE: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def check_payment(payment: SignedPayment, terms: Terms, now: datetime) -> PaymentVerified | PaymentRefused:
    """Check the payment against the terms at `now`, and its signature. Balances and used nonces are left."""
    fault = _check_accepted(payment, terms) or _check_authorization(payment, terms, now)
    if fault is not None:
        return PaymentRefused(fault)
    signer = recover_signer(payment, terms.token)
    if signer is None or signer.lower() != payment.payer:
        return PaymentRefused("the signature is not the payer's for this authorization")
    return PaymentVerified(signer)


def refuse_short_balance(terms: Terms) -> PaymentRefused:
    """Build the refusal of a payer whose balance, less what is reserved, does not cover the payment."""
    return PaymentRefused(f"the payer has not enough {terms.token.symbol}")


def _check_accepted(payment: SignedPayment, terms: Terms) -> str | None:
    accepted = payment.accepted
    expected = {
        "scheme": terms.scheme,
        "network": terms.token.network,
        "asset": terms.token.address,
        "amount": str(terms.amount),
        "payTo": terms.pay_to,
    }
    for name, value in expected.items():
        accepted_value = accepted.get(name)
        # Addresses may be in any case; the other values are lower case or digits anyway.
        if not isinstance(accepted_value, str) or accepted_value.lower() != value.lower():
            return f"accepted.{name} must be {value}"
    return None if _has_challenge(accepted) else _NO_CHALLENGE


def _has_challenge(accepted: Mapping[str, Any]) -> bool:
    """Whether the payer sent a challenge. Its form is checked here, and not its value."""
    extra: Any = accepted.get("extra")
    value = cast("dict[str, Any]", extra).get(CHALLENGE) if isinstance(extra, dict) else None
    return isinstance(value, str) and _CHALLENGE.fullmatch(value) is not None


def _check_authorization(payment: SignedPayment, terms: Terms, now: datetime) -> str | None:
    if payment.scheme != terms.scheme:
        return f"the payload must be one of the scheme {terms.scheme}"
    if payment.to != terms.pay_to.lower():
        return f"the authorization must pay {terms.pay_to}"
    if payment.facilitator is not None and payment.facilitator not in map(str.lower, terms.facilitators):
        return f"witness.facilitator must be {' or '.join(terms.facilitators)}"
    if terms.amount == 0:
        # Its transfer would move nothing, at the cost of its sender.
        return "an amount of 0 is no payment"
    if payment.value != terms.amount:
        return f"the authorized value must be exactly {terms.amount}"
    if payment.valid_after > now.timestamp():
        return "validAfter is in the future"
    if payment.valid_before < now.timestamp() + LEAD_SECONDS:
        return f"validBefore must be at least {LEAD_SECONDS} seconds ahead"
    # A later one would keep a payment open for as long, if its payer spends the balance meanwhile.
    most = terms.max_timeout_seconds + CLOCK_SECONDS
    if payment.valid_before > now.timestamp() + most:
        return f"validBefore must be at most {most} seconds ahead"
    return None
