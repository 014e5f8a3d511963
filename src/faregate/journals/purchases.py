"""What makes two payments the same purchase, as far as their proofs and requests tell."""

from faregate.core.claims import Claimant
from faregate.core.request_headers import find_header_credentials
from faregate.x402.headers import find_payer


def describe_purchase(proof: str, claimant: Claimant) -> str:
    """Describe payer, request, body and named credentials; "" if the proof names no payer.

    What the proof says is not verified: who finds two equal purchases must compare their verified payers.
    """
    payer = find_payer(proof)
    if not payer:
        return ""
    # A payer that sends another key or another idempotency key buys something else. Cookies are not
    # compared here: between two requests, a server may have set some.
    named = find_header_credentials(claimant.credentials)
    return "\0".join((payer, claimant.request, claimant.body_digest, *named))
