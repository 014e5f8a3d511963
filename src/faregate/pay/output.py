"""The steps of a purchase as they are reported, each as a line of text or of JSON. Pure.

The `name` of a step and its fields are the interface of `--json` (docs/pay.md).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

_MAX_LENGTH = 500


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """One step of a purchase. `name` identifies it in JSON."""

    name: ClassVar[str]

    def text(self) -> str:
        """Format the step for a terminal."""
        raise NotImplementedError

    def fields(self) -> dict[str, Any]:
        """Return the fields of the step's JSON object, without its name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RequestSent(ProgressStep):
    """A request was sent; `paying` says whether it carried the payment."""

    name: ClassVar[str] = "asked"
    method: str
    url: str
    paying: bool

    def text(self) -> str:
        return f"> {self.method} {clean(self.url)}{' with the payment' if self.paying else ''}"


@dataclass(frozen=True, slots=True)
class PriceOption:
    """One entry of `accepts`. `amount` is formatted; `atomic` is the number that would be signed."""

    amount: str
    atomic: str
    scheme: str
    network: str
    asset: str
    pay_to: str

    def text(self) -> str:
        return clean(f"{self.amount} on {self.network} to {self.pay_to}")


@dataclass(frozen=True, slots=True)
class PriceQuoted(ProgressStep):
    """A 402 with its price; `error` is the reason in the seller's words."""

    name: ClassVar[str] = "payment_required"
    resource: str
    error: str
    accepts: Sequence[PriceOption]

    def text(self) -> str:
        prices = "".join(f"\n    {price.text()}" for price in self.accepts)
        return f"< 402 {clean(self.error)}{prices}\n    for {clean(self.resource)}"


@dataclass(frozen=True, slots=True)
class PaymentSigned(ProgressStep):
    """The only payment of this purchase. `valid_until` is a Unix time, None if unknown."""

    name: ClassVar[str] = "signed"
    payer: str
    address: str
    amount: str
    network: str
    valid_until: int | None

    def text(self) -> str:
        return clean(f"* signed: {self.amount} on {self.network}, by {self.payer} ({self.address})")


@dataclass(frozen=True, slots=True)
class PaymentResumed(ProgressStep):
    """No payment is signed: the one kept in a file is sent again."""

    name: ClassVar[str] = "resumed"
    file: str

    def text(self) -> str:
        return f"* sending the payment in {clean(self.file)} again; to sign a new one, delete this file"


@dataclass(frozen=True, slots=True)
class ResponseReceived(ProgressStep):
    """A response. `code` and `transaction_id` come from a body of the shape `{code, message}`."""

    name: ClassVar[str] = "answered"
    status: int
    code: str | None
    transaction_id: str | None
    content_type: str
    size: int

    def text(self) -> str:
        details = " ".join(part for part in (self.code, self.transaction_id) if part)
        return clean(f"< {self.status} {details or f'{self.content_type}, {self.size} bytes'}")


@dataclass(frozen=True, slots=True)
class ResponseMissing(ProgressStep):
    """The connection ended without a response."""

    name: ClassVar[str] = "no_answer"
    reason: str

    def text(self) -> str:
        return f"< {clean(self.reason)}"


@dataclass(frozen=True, slots=True)
class RetryScheduled(ProgressStep):
    """The payment is pending: the same one is sent again after `seconds`."""

    name: ClassVar[str] = "waiting"
    seconds: float
    why: str

    def text(self) -> str:
        return f"* {clean(self.why)}; sending the same payment again in {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class PaymentReported(ProgressStep):
    """The decoded `PAYMENT-RESPONSE` header. `used` is what was taken of a maximum, formatted."""

    name: ClassVar[str] = "paid"
    success: bool
    transaction: str
    network: str
    payer: str | None
    amount: str | None
    used: str | None = None

    def fields(self) -> dict[str, Any]:
        # Slots: `super()` without arguments does not work in a dataclass that has them.
        all_fields = ProgressStep.fields(self)
        return {name: value for name, value in all_fields.items() if name != "used" or value is not None}

    def text(self) -> str:
        status = "paid" if self.success else "not paid"
        used = "" if self.used is None else f" {self.used}"
        return clean(
            f"* {status}{used}: {self.transaction} on {self.network}, by {self.payer or 'an unnamed payer'}"
        )


@dataclass(frozen=True, slots=True)
class PurchaseEnded(ProgressStep):
    """The end; `exit` is the exit code (docs/pay.md)."""

    name: ClassVar[str] = "ended"
    exit: int
    why: str

    def text(self) -> str:
        return f"* {clean(self.why)}"


def clean(text: str) -> str:
    """Make a seller's text safe to print: one line, at most 500 characters, no control characters.

    A terminal would obey escape sequences, and a line break could fake a step.
    """
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:_MAX_LENGTH])
