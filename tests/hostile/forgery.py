"""What the service would have said, made up by somebody who did not ask it: true in form, and a lie."""

import json
from collections.abc import Mapping
from typing import Any

from faregate.core.models import Headers, Response, WireRequest
from faregate.emulator import Emulator
from tests.merchant.samples import COMPLETED, RECEIPT, TRANSACTION, TXN

JSON: Headers = (("Content-Type", "application/json"),)
LIE = "Zm9yZ2Vk"
"""A `PAYMENT-RESPONSE` that the service never gave. In a payer's hands it is a result given away."""


def forged(operation: str, request: WireRequest, emulator: Emulator) -> Response:
    """A perfect lie about a payment; where none is at stake, the truth."""
    identifier = request.path.partition("?")[0].removesuffix("/complete").rsplit("/", 1)[1]
    match operation:
        case "access":
            return said({"transaction_id": TXN})
        case "complete":
            return said(COMPLETED | _about(identifier), ("PAYMENT-RESPONSE", LIE))
        case "fail":
            nothing = dict.fromkeys(("payment_response", "receipt", "transaction_hash"))
            return said({"transaction_id": identifier, "status": "failed", **nothing})
        case "look":
            return said(TRANSACTION | {"id": identifier, "receipt": _about(identifier)["receipt"]})
        case _:
            return emulator.respond(request)


def _about(transaction_id: str) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "receipt": RECEIPT | {"transaction_id": transaction_id}}


def said(body: Mapping[str, Any], *headers: tuple[str, str]) -> Response:
    return Response(200, (*JSON, *headers), json.dumps(body).encode())
