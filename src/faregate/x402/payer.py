"""Who paid: read from a proof, or from what says that it settled. Pure; nothing is verified."""

import base64
from typing import Any, cast

from faregate.x402.instructions import parse_json

_MAX_ADDRESS = 100


def find_payer(proof: str) -> str:
    """Return the address that a `PAYMENT-SIGNATURE` header names as the payer, or "". Never raises.

    In lower case. The scheme `exact` has it in `payload.authorization.from`, or under Permit2 in
    `payload.permit2Authorization.from`.
    """
    payload = _get_object(_decode(proof), "payload")
    for name in ("authorization", "permit2Authorization"):
        if payer := _get_text(_get_object(payload, name), "from"):
            return payer
    return ""


def find_settlement(payment_response: str) -> tuple[str, str]:
    """Return the payer and the transaction hash that a `PAYMENT-RESPONSE` header names, or "" for each."""
    settled = _decode(payment_response)
    return _get_text(settled, "payer"), _get_text(settled, "transaction")


def _decode(header: str) -> dict[str, Any]:
    try:
        found = parse_json(base64.b64decode(header, validate=True))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _get_object(holder: dict[str, Any], name: str) -> dict[str, Any]:
    found = holder.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _get_text(holder: dict[str, Any], name: str) -> str:
    found = holder.get(name)
    return found.lower() if isinstance(found, str) and len(found) <= _MAX_ADDRESS else ""
