"""The seam behind which money moves: two calls, verify and settle.

The simulated ledger is one implementation; a real x402 facilitator can be another. What a call may
answer is a value; an exception means that nobody knows, and is treated so.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from faregate.x402.models import Payment, Terms


@dataclass(frozen=True, slots=True)
class PaymentVerified:
    """The payment is good; `payer` is the address in its consistent (checksum) form."""

    payer: str


@dataclass(frozen=True, slots=True)
class PaymentRefused:
    """The payment is not good, for a reason the payer may read. Final."""

    reason: str


@dataclass(frozen=True, slots=True)
class PaymentSettled:
    """The money moved."""

    transaction_hash: str


@dataclass(frozen=True, slots=True)
class PaymentPending:
    """Not known yet: ask again."""

    status: Literal["settling", "reconciling"] = "settling"


class Facilitator(Protocol):
    """The two calls."""

    def verify(
        self, payment: Payment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified | PaymentRefused:
        """Is the payment good? `committed` atomic units of the payer are promised to open transactions."""
        ...

    def settle(
        self, payment: Payment, terms: Terms, *, now: datetime
    ) -> PaymentSettled | PaymentRefused | PaymentPending:
        """Take the money. `now` is when the seller asked for it; asking twice takes it once."""
        ...
