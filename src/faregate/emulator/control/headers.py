"""The headers of a payment, decoded for a page. A signature is shown shortened: it is worth money. Pure."""

import base64
from collections.abc import Mapping
from typing import Any, Final, cast

from faregate.core.instructions import parse_json
from faregate.core.models import Headers, header_values
from faregate.x402.models import Payment
from faregate.x402.proofs import BadProof, read_payment

Json = dict[str, Any]
_LONGEST: Final = 16 * 1024


def asked_of(headers: Headers) -> Json | None:
    """What `PAYMENT-REQUIRED` says, as the emulator wrote it."""
    return _decoded(headers, "payment-required")


def answered_of(headers: Headers) -> Json | None:
    """What `PAYMENT-RESPONSE` says."""
    return _decoded(headers, "payment-response")


def proof_of(headers: Headers) -> Json | None:
    """What `PAYMENT-SIGNATURE` promises, or `unreadable` with the reason."""
    values = header_values(headers, "payment-signature")
    if not values:
        return None
    if len(values) > 1:
        return {"unreadable": "the header was sent more than once"}
    try:
        return promise(read_payment(values[0]))
    except BadProof as error:
        return {"unreadable": str(error)}


def promise(payment: Payment) -> Json:
    """The authorization of a payment."""
    accepted: Mapping[str, Any] = payment.accepted
    return {
        "from": payment.payer,
        "to": payment.to,
        "value": str(payment.value),
        "network": _text(accepted.get("network")),
        "asset": _text(accepted.get("asset")),
        "scheme": _text(accepted.get("scheme")),
        "validAfter": str(payment.valid_after),
        "validBefore": str(payment.valid_before),
        "nonce": payment.nonce,
        "signature": f"{payment.signature[:10]}…{payment.signature[-4:]}",
    }


def _decoded(headers: Headers, name: str) -> Json | None:
    values = header_values(headers, name)
    if not values or len(values[0]) > _LONGEST:
        return None
    try:
        found = parse_json(base64.b64decode(values[0], validate=True))
    except (ValueError, RecursionError):
        return {"unreadable": "not base64 of JSON"}
    return cast("Json", found) if isinstance(found, dict) else {"unreadable": "not a JSON object"}


def _text(value: object) -> str:
    """What a payer claims may be of any kind and length."""
    return value[:200] if isinstance(value, str) else ""
