"""The seam behind which money moves: two calls, verify and settle.

The simulated ledger is one implementation; a real x402 facilitator can be another. What a call may
answer is a value; an exception means that nobody knows, and is treated so.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from faregate.emulator.tokens import Token

SCHEME: Final = "exact"
X402_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class Terms:
    """What must be paid: one entry of `accepts`. `amount` is in atomic units."""

    token: Token
    amount: int
    pay_to: str
    max_timeout_seconds: int


@dataclass(frozen=True, slots=True)
class Payment:
    """A payer's EIP-3009 authorization and its signature, hex in lower case.

    `header` is the `PAYMENT-SIGNATURE` value that it was read from. One authorization can be written in many
    headers, and only its payer knows the one that was sent: so two are equal when their headers are.
    """

    payer: str
    to: str
    value: int
    valid_after: int
    valid_before: int
    nonce: str
    signature: str
    header: str = field(repr=False)

    @property
    def proof(self) -> Mapping[str, Any]:
        """The whole x402 `PaymentPayload`, decoded anew each time."""
        found: Mapping[str, Any] = json.loads(base64.b64decode(self.header))
        return found

    @property
    def accepted(self) -> Mapping[str, Any]:
        """The terms the payer says it accepted."""
        accepted: Mapping[str, Any] = self.proof["accepted"]
        return accepted


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
