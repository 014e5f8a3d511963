"""The simulated ledger: balances, used nonces, transaction hashes. A `rules.payments.Ledger`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from faregate.rules.account import Account
from faregate.rules.payments import PaymentRefused, PaymentSettled, PaymentVerified
from faregate.rules.simulated_ledger import EXPIRED, build_transaction_hash, list_balances
from faregate.rules.verification import USED, check_payment, refuse_short_balance
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Environment, Token

DEFAULT_BALANCE: Final = 1_000_000_000
Balance = tuple[Token, str]
"""Whose it is: the asset, and the address in lower case."""


class SimulatedLedger:
    """Balances in atomic units. An address that was never funded has `default_balance`."""

    def __init__(self, default_balance: int = DEFAULT_BALANCE) -> None:
        self._default = default_balance
        self._balances: dict[Balance, int] = {}
        self._settled: dict[str, str] = {}
        """The transaction hash of each used authorization, by `x402.models.build_authorization_key`."""

    def balance(self, token: Token, address: str) -> int:
        return self._balances.get((token, address.lower()), self._default)

    def set_balance(self, token: Token, address: str, balance: int) -> None:
        """Set the balance of the address."""
        self._balances[token, address.lower()] = balance

    def copy(self) -> "SimulatedLedger":
        """Return an independent ledger with the same balances and uses."""
        twin = SimulatedLedger(self._default)
        twin.restore(self._balances, self._settled)
        return twin

    def state(self) -> tuple[dict[Balance, int], dict[str, str]]:
        """Return all balances that are not the default, and the hash of every used authorization."""
        return dict(self._balances), dict(self._settled)

    def restore(self, balances: Mapping[Balance, int], settled: Mapping[str, str]) -> None:
        """Replace all balances and uses."""
        self._balances, self._settled = dict(balances), dict(settled)

    def verify(
        self, payment: SignedPayment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified | PaymentRefused:
        """Check everything in x402 `exact` that does not need a chain."""
        checked = check_payment(payment, terms, now)
        if isinstance(checked, PaymentRefused):
            return checked
        if payment.get_key(terms.token) in self._settled:
            return USED
        if self.balance(terms.token, payment.payer) - committed < payment.value:
            return refuse_short_balance(terms)
        return checked

    def settle(
        self, payment: SignedPayment, terms: Terms, *, now: datetime
    ) -> PaymentSettled | PaymentRefused:
        """Move the value from payer to recipient, once; the same payment again gets the same hash."""
        use = payment.get_key(terms.token)
        # Settling must be repeatable: the caller may not have got the first answer.
        if use in self._settled:
            return PaymentSettled(self._settled[use])
        if now.timestamp() >= payment.valid_before:
            return EXPIRED
        remaining = self.balance(terms.token, payment.payer) - payment.value
        if remaining < 0:
            return refuse_short_balance(terms)
        self.set_balance(terms.token, payment.payer, remaining)
        self.set_balance(terms.token, payment.to, self.balance(terms.token, payment.to) + payment.value)
        self._settled[use] = build_transaction_hash(terms.token, payment)
        return PaymentSettled(self._settled[use])


BOTH: Final[tuple[Environment, ...]] = ("test", "live")


def build_ledger(account: Account) -> SimulatedLedger:
    """Build a ledger with the account's balances; the seller starts with nothing."""
    ledger = SimulatedLedger(account.default_balance)
    for environment in BOTH:
        for token, address, balance in list_balances(account, environment):
            ledger.set_balance(token, address, balance)
    return ledger
