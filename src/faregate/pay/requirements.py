"""What a seller asks for: read from `PAYMENT-REQUIRED`, and told in units of the asset."""

from faregate.errors import FaregateError
from faregate.pay.official import PaymentRequired, PaymentRequirements, decode_payment_required_header
from faregate.pay.output import Price, Required
from faregate.x402.tokens import TOKENS, Token, price_label


class Unsigned(FaregateError):
    """Nothing was signed; the text says why."""


def read_required(header: str) -> PaymentRequired:
    """The instructions in a `PAYMENT-REQUIRED` header. Raises `Unsigned` if they are none."""
    try:
        found = decode_payment_required_header(header)
    except (ValueError, AttributeError, RecursionError):
        raise Unsigned("PAYMENT-REQUIRED cannot be read") from None
    if not isinstance(found, PaymentRequired):
        raise Unsigned("the seller speaks version 1 of x402, this is version 2")
    return found


def as_step(required: PaymentRequired, url: str) -> Required:
    """What is told of these instructions."""
    resource = required.resource.url if required.resource else url
    return Required(resource, required.error or "", [_price(one) for one in required.accepts])


def token_of(one: PaymentRequirements) -> Token | None:
    """The token by its published address; None for any other."""
    place = (one.network, one.asset.lower())
    return next((t for t in TOKENS.values() if (t.network, t.address.lower()) == place), None)


def amount_of(one: PaymentRequirements) -> str:
    """`0.05 USDC`, or atomic units of what is not known."""
    token = token_of(one)
    if token is None or not is_atomic(one.amount):
        return f"{one.amount} atomic units of {one.asset}"
    return price_label(int(one.amount), token.symbol)


def is_atomic(text: str) -> bool:
    """Digits, and no more than a token contract takes."""
    return text.isascii() and text.isdigit() and len(text) <= 78


def _price(one: PaymentRequirements) -> Price:
    return Price(amount_of(one), one.amount, one.scheme, one.network, one.asset, one.pay_to)
