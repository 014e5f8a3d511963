"""What makes two payments the same purchase, as far as their proofs and requests tell."""

from collections.abc import Callable

from faregate.core.claims import Claimant
from faregate.core.request_headers import find_header_credentials
from faregate.x402.headers import find_payer

IDENTIFIED = "i"
"""How the hash of a purchase begins that its payer has named. No hexadecimal digit is this letter."""
_LENGTH = 32


def hash_purchase(proof: str, claimant: Claimant, digest: Callable[[str], bytes]) -> str:
    """Hash payer and identifier; without one payer, request, what is sold, body and named credentials.

    Empty if the proof names no payer. What it says is not verified: who finds two equal purchases must
    compare their verified payers.
    """
    payer = find_payer(proof)
    if not payer:
        return ""
    if claimant.identifier:
        return (IDENTIFIED + digest(f"identifier\0{payer}\0{claimant.identifier}").hex())[:_LENGTH]
    # A payer that sends another key or another idempotency key buys something else. Cookies are not
    # compared here: between two requests, a server may have set some.
    named = find_header_credentials(claimant.credentials)
    about = (payer, claimant.request, claimant.sold, claimant.body_digest, *named)
    return digest("\0".join(about)).hex()[:_LENGTH]
