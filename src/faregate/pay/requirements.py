"""Parse the `PAYMENT-REQUIRED` header, and describe the seller's price (x402 `PaymentRequirements`)."""

from x402.http.utils import decode_payment_required_header, decode_payment_signature_header
from x402.schemas import PaymentPayload, PaymentRequired, PaymentRequirements

from faregate.errors import FaregateError
from faregate.pay.output import PriceOption, PriceQuoted
from faregate.x402.tokens import TOKENS, Token, format_price


class NotSigned(FaregateError):
    """No payment was signed; the text says why."""


def parse_payment_required(header: str) -> PaymentRequired:
    """Parse a `PAYMENT-REQUIRED` header of x402 version 2. Raises `NotSigned`."""
    try:
        required = decode_payment_required_header(header)
    except (ValueError, AttributeError, RecursionError):
        raise NotSigned("PAYMENT-REQUIRED cannot be read") from None
    if not isinstance(required, PaymentRequired):
        raise NotSigned("the seller uses version 1 of x402; version 2 is needed")
    return required


def quote_price(required: PaymentRequired, url: str) -> PriceQuoted:
    """Describe the requirements for display; `url` is shown if they name no resource."""
    resource = required.resource.url if required.resource else url
    options = [
        PriceOption(
            format_amount(requirement),
            requirement.amount,
            requirement.scheme,
            requirement.network,
            requirement.asset,
            requirement.pay_to,
        )
        for requirement in required.accepts
    ]
    return PriceQuoted(resource, required.error or "", options)


def find_token(requirements: PaymentRequirements) -> Token | None:
    """Find the token by its published address, never by the name the seller gives it."""
    key = (requirements.network, requirements.asset.lower())
    return next((token for token in TOKENS.values() if (token.network, token.address.lower()) == key), None)


def format_amount(requirements: PaymentRequirements) -> str:
    """Format as `0.05 USDC`, in atomic units if the token is unknown; a maximum as `up to 0.50 USDC`."""
    token, most = find_token(requirements), "up to " if requirements.scheme == "upto" else ""
    if token is None or not is_atomic_amount(requirements.amount):
        return f"{most}{requirements.amount} atomic units of {requirements.asset}"
    return most + format_price(int(requirements.amount), token.symbol)


def format_used(proof: str, amount: str | None) -> str | None:
    """Format what was taken of the maximum in this `PAYMENT-SIGNATURE`; None for a fixed price."""
    try:
        payload = decode_payment_signature_header(proof)
    except (ValueError, AttributeError, RecursionError):
        return None
    if amount is None or not isinstance(payload, PaymentPayload) or payload.accepted.scheme != "upto":
        return None
    return format_amount(payload.accepted.model_copy(update={"scheme": "exact", "amount": amount}))


def is_atomic_amount(text: str) -> bool:
    """Return whether the text is a whole number that fits a token contract's uint256 (78 digits)."""
    return text.isascii() and text.isdigit() and len(text) <= 78
