"""Payments that say whose they are, in one encoding or another. Their signatures are none."""

import base64
import json

PAYER, NONCE = "0x" + "aB" * 20, "0x" + "cD" * 32


def encode_payment(
    *, seconds: int = 60, nonce: str = NONCE, payer: str = PAYER, indent: int | None = None
) -> str:
    """Encode a payment that is valid for so many seconds."""
    authorization = {
        "from": payer,
        "nonce": nonce,
        "validAfter": "1700000000",
        "validBefore": str(1_700_000_000 + seconds),
    }
    payment = {"x402Version": 2, "payload": {"authorization": authorization, "signature": "0x00"}}
    return base64.b64encode(json.dumps(payment, indent=indent).encode()).decode()
