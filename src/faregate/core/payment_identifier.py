"""Read by what name a payer buys: the `payment-identifier` of x402. Pure."""

from faregate.core.models import PaidRequest, Response
from faregate.core.responses import build_refused
from faregate.x402.payment_identifier import EXTENSION, IdentifierUse, InvalidIdentifier, find_identifier


def read_identifier(request: PaidRequest, proof: str) -> str | Response:
    """Return the seller's origin and the identifier in the proof, "" without one, or a 400 for the payer.

    One identifier may name purchases at several sellers that share a journal: their origins differ.
    """
    try:
        identifier = find_identifier(proof)
    except InvalidIdentifier:
        return build_refused(
            400,
            "invalid_payment_identifier",
            f"The id of the extension {EXTENSION} has 16 to 128 letters, digits, hyphens and underscores. "
            "The payment was not used.",
        )
    if identifier:
        origin = "/".join(request.resource_url.split("/", 3)[:3])
        return f"{origin} {identifier}"
    if request.identifier_use is IdentifierUse.REQUIRED:
        return build_refused(
            400,
            "payment_identifier_required",
            f"This seller asks for an id in the extension {EXTENSION}. Sign a payment that has one: this "
            "payment was not used.",
        )
    return ""
