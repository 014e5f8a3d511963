"""The interface of a payments backend: verify a payment, settle it.

The simulated ledger is one backend, an x402 facilitator can be another. Known results are values. An
exception means that the result is unknown, and the payment is then `reconciling`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from faregate.x402.models import SignedPayment, Terms


@dataclass(frozen=True, slots=True)
class PaymentVerified:
    """The payment is good. `payer` is its checksum address."""

    payer: str


@dataclass(frozen=True, slots=True)
class PaymentRefused:
    """The payment is not good; the payer may read the reason. Final."""

    reason: str


@dataclass(frozen=True, slots=True)
class PaymentSettled:
    """The money moved."""

    transaction_hash: str


@dataclass(frozen=True, slots=True)
class PaymentPending:
    """The result is not known yet; ask again."""

    status: Literal["settling", "reconciling"] = "settling"


class Facilitator(Protocol):
    """A payments backend (x402's term for who verifies and settles)."""

    def verify(
        self, payment: SignedPayment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified | PaymentRefused:
        """Check the payment. `committed` atomic units of the payer are reserved for open transactions."""
        ...

    def settle(
        self, payment: SignedPayment, terms: Terms, *, now: datetime
    ) -> PaymentSettled | PaymentRefused | PaymentPending:
        """Move the money, once however often it is called. `now` is when the seller completed."""
        ...
