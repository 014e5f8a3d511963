"""Proofs that differ in one field, made by joining text: the load makes one for each request."""

import base64
import json
import secrets
from typing import Any, Final

SERIAL_LENGTH: Final = 21
"""Hexadecimal digits of a payer's address: each payer buys once, so no payment resumes another one."""
_PLACE: Final = "*"
INSTRUCTIONS: Final = {
    "scheme": "exact",
    "network": "eip155:84532",
    "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    "amount": "10000",
    "payTo": "0x" + "2" * 40,
    "maxTimeoutSeconds": 300,
    "extra": {"name": "USDC", "version": "2"},
}


def build_payment(accepted: Any, url: str, payer: str) -> dict[str, Any]:
    """Build the payload of a proof as x402 clients do, with a signature that no key has made."""
    return {
        "x402Version": 2,
        "resource": {"url": url, "description": "", "mimeType": "application/json"},
        "accepted": accepted,
        "payload": {
            "signature": "0x" + "5a" * 65,
            "authorization": {
                "to": accepted["payTo"],
                "value": accepted["amount"],
                "validAfter": "0",
                "validBefore": "4102444800",
                "nonce": "0x" + "c3" * 32,
                "from": payer,  # last: the end of a proof tells it apart
            },
        },
    }


def build_template(accepted: Any, url: str) -> str:
    """Build the base64 of a payment whose serial is left out: `fill` and `load.lua` put it in."""
    payer = "0x" + "1" * (40 - SERIAL_LENGTH) + _PLACE
    head, _, tail = json.dumps(build_payment(accepted, url, payer)).partition(_PLACE)
    # Three bytes are four characters of base64, so that parts can be joined.
    head, tail = " " * (-len(head) % 3) + head, tail + " " * (-len(tail) % 3)
    return f"{_encode(head)}{_PLACE}{_encode(tail)}"


def fill(template: str, serial: str) -> str:
    """Return the proof with this serial, of `SERIAL_LENGTH` hexadecimal digits."""
    return template.replace(_PLACE, _encode(serial))


def make_serial() -> str:
    """Make a serial that no other proof has."""
    return secrets.token_hex(SERIAL_LENGTH)[:SERIAL_LENGTH]


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
