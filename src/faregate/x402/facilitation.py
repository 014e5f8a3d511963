"""What is sent to an x402 facilitator: the body of `POST /verify` and of `POST /settle`. Pure."""

from typing import Any

from eth_utils.address import to_checksum_address

from faregate.x402.headers import build_requirements
from faregate.x402.models import X402_VERSION, SignedPayment, Terms


def build_facilitator_request(payment: SignedPayment, terms: Terms) -> dict[str, Any]:
    """Build the request from the fields of the payment; its header is not needed.

    `accepted` is what is required, not what the payer wrote: facilitators compare the two, and the
    challenge in the payer's own is nobody else's business.
    """
    requirements = build_requirements(terms)
    payload = {
        "x402Version": X402_VERSION,
        "accepted": requirements,
        "payload": {"signature": payment.signature, "authorization": _build_authorization(payment)},
    }
    return {"x402Version": X402_VERSION, "paymentPayload": payload, "paymentRequirements": requirements}


def _build_authorization(payment: SignedPayment) -> dict[str, str]:
    return {
        "from": to_checksum_address(payment.payer),
        "to": to_checksum_address(payment.to),
        "value": str(payment.value),
        "validAfter": str(payment.valid_after),
        "validBefore": str(payment.valid_before),
        "nonce": payment.nonce,
    }
