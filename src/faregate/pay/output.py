"""What is told of one errand, step by step: values that show as a line of text or of JSON. Pure.

Whatever a seller wrote is shown without control characters: a terminal would obey them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `name` is its name in JSON."""

    name: ClassVar[str]

    def text(self) -> str:
        """What is told to people."""
        raise NotImplementedError

    def fields(self) -> dict[str, Any]:
        """The step as JSON has it, without its name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Asked(Step):
    """A request went out. `paying` says whether it carried the payment."""

    name: ClassVar[str] = "asked"
    method: str
    url: str
    paying: bool

    def text(self) -> str:
        return f"> {self.method} {clean(self.url)}{' with the payment' if self.paying else ''}"


@dataclass(frozen=True, slots=True)
class Price:
    """One entry of `accepts`: `amount` is for people, `atomic` is what would be signed."""

    amount: str
    atomic: str
    scheme: str
    network: str
    asset: str
    pay_to: str

    def text(self) -> str:
        return clean(f"{self.amount} on {self.network} to {self.pay_to}")


@dataclass(frozen=True, slots=True)
class Required(Step):
    """402: what is asked for, and why (the seller's words)."""

    name: ClassVar[str] = "payment_required"
    resource: str
    error: str
    accepts: Sequence[Price]

    def text(self) -> str:
        prices = "".join(f"\n    {price.text()}" for price in self.accepts)
        return f"< 402 {clean(self.error)}{prices}\n    for {clean(self.resource)}"


@dataclass(frozen=True, slots=True)
class Signed(Step):
    """The one payment of this errand. `valid_until` is a Unix time, None if it cannot be told."""

    name: ClassVar[str] = "signed"
    payer: str
    address: str
    amount: str
    network: str
    valid_until: int | None

    def text(self) -> str:
        return clean(f"* signed: {self.amount} on {self.network}, by {self.payer} ({self.address})")


@dataclass(frozen=True, slots=True)
class Resumed(Step):
    """No payment is signed: the one that a file has is sent again."""

    name: ClassVar[str] = "resumed"
    file: str

    def text(self) -> str:
        return (
            f"* nothing is signed: the payment in {clean(self.file)} is sent again (to pay anew, delete it)"
        )


@dataclass(frozen=True, slots=True)
class Answered(Step):
    """An answer. `code` and `transaction_id` are from a body of the shape `{code, message}`."""

    name: ClassVar[str] = "answered"
    status: int
    code: str | None
    transaction_id: str | None
    content_type: str
    size: int

    def text(self) -> str:
        about = " ".join(part for part in (self.code, self.transaction_id) if part)
        return clean(f"< {self.status} {about or f'{self.content_type}, {self.size} bytes'}")


@dataclass(frozen=True, slots=True)
class NoAnswer(Step):
    """The connection ended without an answer."""

    name: ClassVar[str] = "no_answer"
    reason: str

    def text(self) -> str:
        return f"< no answer: {clean(self.reason)}"


@dataclass(frozen=True, slots=True)
class Waiting(Step):
    """The payment is open: the same one is sent again after so many seconds."""

    name: ClassVar[str] = "waiting"
    seconds: float
    why: str

    def text(self) -> str:
        return f"* {clean(self.why)}; the same payment again in {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Paid(Step):
    """`PAYMENT-RESPONSE`, decoded."""

    name: ClassVar[str] = "paid"
    success: bool
    transaction: str
    network: str
    payer: str | None
    amount: str | None

    def text(self) -> str:
        what = "paid" if self.success else "not paid"
        return clean(f"* {what}: {self.transaction} on {self.network}, by {self.payer or 'an unnamed payer'}")


@dataclass(frozen=True, slots=True)
class Ended(Step):
    """How it ended; `exit` is the exit code (docs/pay.md)."""

    name: ClassVar[str] = "ended"
    exit: int
    why: str

    def text(self) -> str:
        return f"* {clean(self.why)}"


def clean(text: str) -> str:
    """In one line, printable, and not endless."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:_LONGEST])
