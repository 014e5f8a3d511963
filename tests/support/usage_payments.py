"""Payments of the scheme `upto`, signed by the official client."""

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from eth_account import Account

from faregate.x402.headers import build_accepts, parse_payment
from faregate.x402.models import SignedPayment, Terms

CHALLENGE: Final = "5c" * 32


def sign_usage(private_key: str | bytes, terms: Terms) -> dict[str, Any]:
    """Sign these terms with the official client; return the x402 payload."""
    from x402.mechanisms.evm.upto.client import UptoEvmScheme  # pyright: ignore[reportMissingTypeStubs]
    from x402.schemas import PaymentRequirements

    accepted = build_accepts(terms, CHALLENGE)
    client = UptoEvmScheme(Account.from_key(private_key))
    payload = client.create_payment_payload(PaymentRequirements.model_validate(accepted))
    return {"x402Version": 2, "accepted": accepted, "payload": payload}


def pay_instructions(private_key: str | bytes, instructions: str) -> str:
    """Answer a 402 with the official client: make the `PAYMENT-SIGNATURE`."""
    from x402 import x402ClientSync
    from x402.http.utils import decode_payment_required_header, encode_payment_signature_header
    from x402.mechanisms.evm.upto.client import UptoEvmScheme  # pyright: ignore[reportMissingTypeStubs]

    client = x402ClientSync()
    client.register("eip155:*", UptoEvmScheme(Account.from_key(private_key)))
    payload = client.create_payment_payload(decode_payment_required_header(instructions))
    return encode_payment_signature_header(payload)


def encode_proof(payload: dict[str, Any]) -> str:
    return base64.b64encode(json.dumps(payload).encode()).decode()


def pay_usage(private_key: str | bytes, terms: Terms) -> SignedPayment:
    """Pay these terms with the official client."""
    return parse_payment(encode_proof(sign_usage(private_key, terms)))


@dataclass(frozen=True)
class Change:
    """A member of a payload, by its path, and another value for it."""

    path: tuple[str, ...]
    value: Any

    def apply(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the payload with the change."""
        changed: dict[str, Any] = json.loads(json.dumps(payload))
        holder = changed
        for name in self.path[:-1]:
            holder = holder[name]
        holder[self.path[-1]] = self.value
        return changed
