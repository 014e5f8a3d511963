"""Writing x402 v2: `PAYMENT-REQUIRED` and `PAYMENT-RESPONSE`, standard padded base64 of JSON. Pure.

Every entry of `accepts` carries a fresh unguessable value, `extra.challenge`. An authorization and its
signature are public once they are settled: they stand in the chain's calldata. Clients echo the chosen entry
in `accepted`, so whoever does not know the challenge cannot rebuild the `PAYMENT-SIGNATURE` header that was
sent. The service does not remember it.
"""

import base64
import json
from functools import lru_cache
from typing import Any, Final

from faregate.merchant.requests import AccessResource
from faregate.x402.models import SCHEME, X402_VERSION, Terms

CHALLENGE: Final = "challenge"
GUESSABLE: Final = "0" * 64
"""The challenge of instructions that are the same for everybody, as a fault makes them."""
_REMEMBERED: Final = 256
"""Instructions that are kept: those of one resource, price and reason differ in the challenge only."""


def accepts(terms: Terms, challenge: str) -> dict[str, Any]:
    """One entry of `accepts` (x402 `PaymentRequirements`)."""
    return {
        "scheme": SCHEME,
        "network": terms.token.network,
        "amount": str(terms.amount),
        "asset": terms.token.address,
        "payTo": terms.pay_to,
        "maxTimeoutSeconds": terms.max_timeout_seconds,
        "extra": {"name": terms.token.name, "version": terms.token.version, CHALLENGE: challenge},
    }


def payment_required(terms: Terms, resource: AccessResource, reason: str, challenge: str) -> str:
    """The header that says how to pay, and why the last try (if there was one) was not accepted."""
    text = _required(terms, resource.url, resource.description, resource.mime_type, reason)
    # The challenge is the last thing in it, so nothing that a seller named can stand in its place.
    before, _, after = text.rpartition(GUESSABLE)
    return _in_base64(before + challenge + after)


@lru_cache(maxsize=_REMEMBERED)
def _required(terms: Terms, url: str, description: str, mime_type: str, reason: str) -> str:
    return _as_json(
        {
            "x402Version": X402_VERSION,
            "error": reason,
            "resource": {"url": url, "description": description, "mimeType": mime_type},
            "accepts": [accepts(terms, GUESSABLE)],
        }
    )


def without_challenge(instructions: str) -> str:
    """Return these instructions with a challenge that is always the same."""
    required = json.loads(base64.b64decode(instructions))
    for entry in required["accepts"]:
        entry["extra"][CHALLENGE] = GUESSABLE
    return _in_base64(_as_json(required))


def payment_response(terms: Terms, payer: str, transaction_hash: str) -> str:
    """The header that proves the payment (x402 `SettlementResponse`)."""
    settled = _as_json(
        {
            "success": True,
            "transaction": transaction_hash,
            "network": terms.token.network,
            "payer": payer,
            "amount": str(terms.amount),
        }
    )
    return _in_base64(settled)


def _as_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
