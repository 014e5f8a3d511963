"""Find the payment proof in a request's headers. Pure; the proof itself is never parsed.

A proof must be unmistakable: one header, one value, one protocol version. Anything else is refused
before it is hashed, stored or sent.
"""

from faregate.core.models import Request

MAX_PROOF_BYTES = 16 * 1024
PROOF = "payment-signature"
PROOF_V1 = "x-payment"
PAYMENT_HEADERS = (b"payment-signature", b"payment_signature", b"x-payment", b"x_payment")
"""The headers about payment, in lower case. Some servers fold `_` into `-`, so both spellings are read."""

# Visible ASCII without a comma: two values that a proxy joined are not one. Deleting them all is six times
# faster than a pattern on a proof of a kilobyte.
_ONE_VALUE = bytes(code for code in range(0x21, 0x7F) if code != ord(","))


class BadProof(Exception):
    """A proof nobody should act on: the `status`, `code` and `message` for the payer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def find_proof(request: Request) -> str | None:
    """The proof, or None. Raises `BadProof`: 431 over 16 KiB, 400 when it is ambiguous or malformed."""
    names = [name.lower() for name, _ in request.headers]
    if "_" in "".join(names):  # some servers fold `_` into `-`: two spellings are two proofs
        raise BadProof(400, "invalid_proof", "PAYMENT_SIGNATURE with underscores is not accepted")
    if PROOF not in names:
        return None
    if PROOF_V1 in names:
        raise BadProof(400, "invalid_proof", "Send PAYMENT-SIGNATURE or X-PAYMENT, not both")
    if names.count(PROOF) > 1:
        raise BadProof(400, "invalid_proof", "Send PAYMENT-SIGNATURE once")
    return _check_proof(request.headers[names.index(PROOF)][1])


def _check_proof(proof: str) -> str:
    if len(proof) > MAX_PROOF_BYTES:
        raise BadProof(431, "proof_too_large", f"PAYMENT-SIGNATURE may have {MAX_PROOF_BYTES} bytes")
    if not (proof and proof.isascii()) or proof.encode().translate(None, _ONE_VALUE):
        raise BadProof(400, "invalid_proof", "PAYMENT-SIGNATURE is not one base64 value")
    return proof
