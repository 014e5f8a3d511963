"""Check a payment against the terms: everything that needs neither ledger nor signature."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from faregate.x402.headers import CHALLENGE
from faregate.x402.models import SCHEME, SignedPayment, Terms

LEAD_SECONDS: Final = 6
"""An authorization must still be valid for this long, so that it can be settled."""
_NO_CHALLENGE: Final = (
    f"accepted.extra.{CHALLENGE} must be that of the instructions: send `accepted` unchanged"
)
_CHALLENGE: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def find_mismatch(payment: SignedPayment, terms: Terms, now: datetime) -> str | None:
    """Return why this payment does not meet the terms at `now`, in words for the payer; None if it does."""
    return _check_accepted(payment, terms) or _check_authorization(payment, terms, now)


def _check_accepted(payment: SignedPayment, terms: Terms) -> str | None:
    accepted = payment.accepted
    expected = {
        "scheme": SCHEME,
        "network": terms.token.network,
        "asset": terms.token.address,
        "amount": str(terms.amount),
        "payTo": terms.pay_to,
    }
    for name, value in expected.items():
        found = accepted.get(name)
        # Addresses may be in any case; the other values are lower case or digits anyway.
        if not isinstance(found, str) or found.lower() != value.lower():
            return f"accepted.{name} must be {value}"
    return None if _has_challenge(accepted) else _NO_CHALLENGE


def _has_challenge(accepted: Mapping[str, Any]) -> bool:
    """Whether the payer echoed a challenge."""
    extra: Any = accepted.get("extra")
    value = cast("dict[str, Any]", extra).get(CHALLENGE) if isinstance(extra, dict) else None
    return isinstance(value, str) and _CHALLENGE.fullmatch(value) is not None


def _check_authorization(payment: SignedPayment, terms: Terms, now: datetime) -> str | None:
    if payment.to != terms.pay_to.lower():
        return f"the authorization must pay {terms.pay_to}"
    if payment.value != terms.amount:
        return f"the authorized value must be exactly {terms.amount}"
    if payment.valid_after > now.timestamp():
        return "validAfter is in the future"
    if payment.valid_before < now.timestamp() + LEAD_SECONDS:
        return f"validBefore must be at least {LEAD_SECONDS} seconds ahead"
    return None
