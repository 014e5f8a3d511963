"""Writing x402 v2: `PAYMENT-REQUIRED` and `PAYMENT-RESPONSE`, standard padded base64 of JSON. Pure."""

import base64
import json
from functools import lru_cache
from typing import Any, Final

from faregate.emulator.payments import SCHEME, X402_VERSION, Terms
from faregate.merchant.requests import AccessResource

_REMEMBERED: Final = 256
"""Instructions that are kept: they are the same for the same resource, price and reason."""


def accepts(terms: Terms) -> dict[str, Any]:
    """One entry of `accepts` (x402 `PaymentRequirements`)."""
    return {
        "scheme": SCHEME,
        "network": terms.token.network,
        "amount": str(terms.amount),
        "asset": terms.token.address,
        "payTo": terms.pay_to,
        "maxTimeoutSeconds": terms.max_timeout_seconds,
        "extra": {"name": terms.token.name, "version": terms.token.version},
    }


def payment_required(terms: Terms, resource: AccessResource, reason: str) -> str:
    """The header that says how to pay, and why the last try (if there was one) was not accepted."""
    return _required(terms, resource.url, resource.description, resource.mime_type, reason)


@lru_cache(maxsize=_REMEMBERED)
def _required(terms: Terms, url: str, description: str, mime_type: str, reason: str) -> str:
    return _encoded(
        {
            "x402Version": X402_VERSION,
            "error": reason,
            "resource": {"url": url, "description": description, "mimeType": mime_type},
            "accepts": [accepts(terms)],
        }
    )


def payment_response(terms: Terms, payer: str, transaction_hash: str) -> str:
    """The header that proves the payment (x402 `SettlementResponse`)."""
    return _encoded(
        {
            "success": True,
            "transaction": transaction_hash,
            "network": terms.token.network,
            "payer": payer,
            "amount": str(terms.amount),
        }
    )


def _encoded(value: dict[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(text.encode()).decode("ascii")
