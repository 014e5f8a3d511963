"""Name the purchase of a payment, as a client does that knows the extension `payment-identifier`."""

import json
from base64 import b64decode, b64encode
from typing import Any

from faregate.x402.payment_identifier import EXTENSION


def with_extension(proof: str, extension: Any) -> str:
    """The same payment: what it is signed over does not include its extensions."""
    payment = json.loads(b64decode(proof))
    payment["extensions"] = {EXTENSION: extension}
    return b64encode(json.dumps(payment).encode()).decode()


def with_identifier(proof: str, identifier: Any) -> str:
    return with_extension(proof, {"info": {"required": False, "id": identifier}, "schema": {}})
