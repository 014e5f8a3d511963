"""The seam behind which money moves: two calls, verify and settle.

The simulated ledger is one implementation; a real x402 facilitator can be another. What a call may
answer is a value; an exception means that nobody knows, and is treated so.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from faregate.x402.models import Payment, Terms


@dataclass(frozen=True, slots=True)
class Verified:
    """The payment is good; `payer` is the address in its consistent (checksum) form."""

    payer: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The payment is not good, for a reason the payer may read. Final."""

    reason: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The money moved."""

    transaction_hash: str


@dataclass(frozen=True, slots=True)
class Pending:
    """Not known yet: ask again."""

    status: Literal["settling", "reconciling"] = "settling"


class Payments(Protocol):
    """The two calls."""

    def verify(self, payment: Payment, terms: Terms, *, now: datetime, committed: int) -> Verified | Refused:
        """Is the payment good? `committed` atomic units of the payer are promised to open transactions."""
        ...

    def settle(self, payment: Payment, terms: Terms, *, now: datetime) -> Settled | Refused | Pending:
        """Take the money. `now` is when the seller asked for it; asking twice takes it once."""
        ...
