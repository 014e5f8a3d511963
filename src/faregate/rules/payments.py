"""The interface of a payments backend: verify a payment, send it, look at what became of it.

The backend of this module settles on a simulated ledger. Those that use a chain are in the package
`faregate.service.chain`: by an x402 facilitator, or by the service's own gas account. A result that is
certain is a value, and not an exception.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, Protocol

from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Token

FACILITATOR: Final = "0xFa4e6a7e00000000000000000000000000000002"
"""Who settles on a ledger, for payers who must name a facilitator."""
UNKNOWN_AMOUNT: Final = "how much was used is not known, so nothing was sent"
_log = logging.getLogger("faregate.service")


class PaymentsUnavailable(Exception):
    """No node or facilitator could verify the payment. Nothing was decided; the caller may try again."""


@dataclass(frozen=True, slots=True)
class PaymentVerified:
    """The payment is good.

    `payer` is its checksum address. `from_block` is a block before which nothing of this payment can be on
    the chain; None if there is no chain. `funds` is the payer's balance in atomic units as it was read, with
    what had left it for open transactions; None if it was not read: then it covers everything.
    """

    payer: str
    from_block: int | None = None
    funds: int | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """What an open transaction reserves: `value` atomic units, for its payer's authorization `nonce`."""

    nonce: str
    value: int


@dataclass(frozen=True, slots=True)
class PaymentRefused:
    """The payment is not good, and never will be; the payer may read the reason. Final."""

    reason: str


@dataclass(frozen=True, slots=True)
class PaymentSettled:
    """The money moved. `amount` is how much of a part of the authorization; None: all of it."""

    transaction_hash: str
    amount: int | None = None


@dataclass(frozen=True, slots=True)
class SettlementPending:
    """The result is not known yet; ask again."""

    status: Literal["settling", "reconciling"] = "settling"


SettlementResult = PaymentSettled | PaymentRefused | SettlementPending


@dataclass(frozen=True, slots=True)
class PaymentSent:
    """A transfer may be on its way, whatever the answer was. Only the chain shows how it ends.

    `note` is for the operator, such as `HTTP 500 settlement_pending`; it never holds proofs or keys.
    """

    transaction_hash: str | None
    note: str


@dataclass(frozen=True, slots=True)
class PaymentPostponed:
    """Nothing was signed, so nothing new can be sent; look at the chain again later. Decides nothing.

    The chain would refuse the transfer now (authorization used or cancelled, payer emptied, expired), or the
    gas account cannot pay for it. `reason` is for the operator.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class SignedTransfer:
    """A chain transaction of the service's own gas account, signed and not sent yet.

    `sender` and `raw` are hex in lower case. `replaces` is the hash of an earlier one with the same gas
    nonce, whose fee was too low.
    `signed_at` is in Unix seconds: it tells when a transfer has waited for too long.

    What is in the books is always sent, also after its payment has ended: a transfer that reverts costs a
    little gas, but a gas nonce that is never used stops every later transfer of the account.
    """

    sender: str
    chain: int
    gas_nonce: int
    raw: str = field(repr=False)
    transaction_hash: str
    replaces: str | None = None
    signed_at: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to settle a payment, written down before anything is sent.

    `number` counts from 1; `submitted_at` is when the seller completed. `hashes` are those that earlier
    attempts got or signed, `signed` the latest transfer that was signed for the payment. `sent_before`
    is true if an earlier attempt may have sent something. `amount` is what to settle of the authorization, in
    atomic units; None: all of it, as with a fixed price.
    """

    submitted_at: datetime
    number: int = 1
    from_block: int | None = None
    hashes: tuple[str, ...] = ()
    signed: SignedTransfer | None = None
    sent_before: bool = False
    amount: int | None = None


def get_amount(payment: SignedPayment, attempt: Attempt) -> int | None:
    """Return what to settle of the payment; None while it is not known how much was used of it."""
    return payment.value if payment.facilitator is None else attempt.amount


class Ledger(Protocol):
    """A ledger that verifies and settles payments itself, without a chain behind it (see `Payments`)."""

    def verify(
        self, payment: SignedPayment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified | PaymentRefused:
        """Check the payment. `committed` atomic units of the payer are reserved for open transactions."""
        ...

    def settle(self, payment: SignedPayment, terms: Terms, *, now: datetime) -> SettlementResult:
        """Move the value of the payment, once however often it is called. `now` is when the seller completed.

        Where the price follows the use, the value is what was used of it.

        It is called again at each read while the result is pending.
        """
        ...


class Payments(Protocol):
    """A payments backend whose truth is a chain. Its methods may call the network, for a bounded time."""

    def verify(
        self,
        payment: SignedPayment,
        terms: Terms,
        *,
        now: datetime,
        committed: int,
        reservations: Sequence[Reservation] = (),
    ) -> PaymentVerified | PaymentRefused:
        """Check the payment, as `Ledger.verify`; raises `PaymentsUnavailable`.

        `committed` is the sum of `reservations`, as far as the store lists them. The chain may have taken one
        of them already: then its amount has left the balance, and is counted once.
        """
        ...

    def list_facilitators(self, token: Token, now: datetime) -> tuple[str, ...]:
        """List who can settle a part of an authorization (scheme `upto`), the preferred address first.

        Empty if there is none. Raises `PaymentsUnavailable` if that cannot be found out.
        """
        ...

    def is_used(self, payment: SignedPayment, terms: Terms) -> bool:
        """Return whether the authorization was used or cancelled; raises `PaymentsUnavailable`."""
        ...

    def look(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> SettlementResult:
        """Return what the chain proves; pending if it proves nothing, or cannot be asked."""
        ...

    def get_gas_account(self, terms: Terms) -> str | None:
        """Return the address whose gas nonce pays for such a transfer; None for a backend without one."""
        ...

    def sign(
        self, payment: SignedPayment, terms: Terms, attempt: Attempt, gas_nonce: int | None
    ) -> SignedTransfer | PaymentPostponed | None:
        """Sign the transfer with the own gas account and send nothing; None for a backend without one.

        `gas_nonce` is the next free one of `get_gas_account` in the books, None if they have never seen that
        account. The result is one of these:

        - `attempt.signed` itself: send it once more, there is nothing to write.
        - One with `replaces`: the same gas nonce with a higher fee. To be written if the books still hold the
          hash that it replaces.
        - Another: a new gas nonce, `gas_nonce` or above. To be written if no transfer in the books has this
          nonce or a higher one; else call `sign` again with the new next free one.

        Raises `PaymentsUnavailable`: nothing was signed.
        """
        ...

    def send(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> PaymentSent | SettlementResult:
        """Send the payment (`attempt.signed` if there is one). Never raises for what may have been sent.

        Only a backend that is the ledger itself answers anything but `PaymentSent`.
        """
        ...


@dataclass(frozen=True, slots=True)
class LedgerPayments:
    """A `Ledger` as a payments backend: it takes the place of the chain."""

    ledger: Ledger

    def verify(
        self,
        payment: SignedPayment,
        terms: Terms,
        *,
        now: datetime,
        committed: int,
        reservations: Sequence[Reservation] = (),
    ) -> PaymentVerified | PaymentRefused:
        return self.ledger.verify(payment, terms, now=now, committed=committed)

    def list_facilitators(self, token: Token, now: datetime) -> tuple[str, ...]:
        return (FACILITATOR,)

    def is_used(self, payment: SignedPayment, terms: Terms) -> bool:
        # Its books and this ledger are one, and are lost together.
        return False

    def look(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> SettlementPending:
        # Nothing to look for: `send` answers at once, and the same however often it is asked.
        return SettlementPending()

    def get_gas_account(self, terms: Terms) -> None:
        return None

    def sign(self, payment: SignedPayment, terms: Terms, attempt: Attempt, gas_nonce: int | None) -> None:
        return None

    def send(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> SettlementResult:
        try:
            # A ledger moves the value of a payment, which is at most what its payer has signed.
            moved = payment if attempt.amount is None else replace(payment, value=attempt.amount)
            return self.ledger.settle(moved, terms, now=attempt.submitted_at)
        except Exception:  # whatever it was, whether the money moved is unknown
            _log.exception("settling a payment gave no answer")
            return SettlementPending("reconciling")
