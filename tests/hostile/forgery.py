"""What the service would have said, made up by somebody who did not ask it: true in form, and a lie."""

from typing import Any

from faregate.core.models import Response
from tests.merchant.samples import COMPLETED, RECEIPT, TRANSACTION, TXN
from tests.support.faulty_service import Call
from tests.support.replies import json_reply

LIE = "Zm9yZ2Vk"
"""A `PAYMENT-RESPONSE` that the service never gave. In a payer's hands it is a result given away."""


def forged(call: Call) -> Response:
    """A perfect lie about a payment; where none is at stake, the truth."""
    identifier = call.request.path.partition("?")[0].removesuffix("/complete").rsplit("/", 1)[1]
    match call.operation:
        case "access":
            return json_reply(200, {"transaction_id": TXN})
        case "complete":
            return json_reply(200, COMPLETED | _about(identifier), ("PAYMENT-RESPONSE", LIE))
        case "fail":
            nothing = dict.fromkeys(("payment_response", "receipt", "transaction_hash"))
            return json_reply(200, {"transaction_id": identifier, "status": "failed", **nothing})
        case "transaction":
            return json_reply(200, TRANSACTION | {"id": identifier, "receipt": _about(identifier)["receipt"]})
        case _:
            return call.act()


def _about(transaction_id: str) -> dict[str, Any]:
    return {"transaction_id": transaction_id, "receipt": RECEIPT | {"transaction_id": transaction_id}}
