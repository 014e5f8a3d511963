"""Simulated payments: a ledger in the database instead of a chain. No money moves.

The database is the chain here, so a transfer is one transaction: it moves the value and marks the
authorization as used. A repeated request gets the same hash, also after a crash.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from faregate.rules.payments import (
    FACILITATOR,
    Attempt,
    PaymentRefused,
    PaymentSettled,
    PaymentsUnavailable,
    PaymentVerified,
    Reservation,
    SettlementPending,
    SettlementResult,
)
from faregate.rules.simulated_ledger import EXPIRED, build_transaction_hash
from faregate.rules.verification import USED, check_payment, refuse_short_balance
from faregate.service.database import simulated_ledger as tables
from faregate.service.database.engine import Database, DatabaseError
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Token

_log = logging.getLogger("faregate.service")


@dataclass(frozen=True, slots=True)
class SimulatedPayments:
    """The payments of one account on its simulated ledger."""

    database: Database
    account: int

    def verify(
        self,
        payment: SignedPayment,
        terms: Terms,
        *,
        now: datetime,
        committed: int,
        reservations: Sequence[Reservation] = (),  # this ledger is never ahead of the books
    ) -> PaymentVerified | PaymentRefused:
        """Check the payment, and that the payer has its value beside what is committed."""
        checked = check_payment(payment, terms, now)
        if isinstance(checked, PaymentRefused):
            return checked
        try:
            with self.database.read() as connection:
                used = tables.find_transfer(connection, self.account, terms.token, payment)
                [balance] = tables.get_balances(connection, self.account, terms.token, payment.payer)
        except DatabaseError as error:
            raise PaymentsUnavailable from error
        if used is not None:
            return USED
        if balance - committed < payment.value:
            return refuse_short_balance(terms)
        return replace(checked, funds=balance)

    def look(
        self, payment: SignedPayment, terms: Terms, attempt: Attempt
    ) -> PaymentSettled | SettlementPending:
        """Return the transfer, if there is one."""
        try:
            with self.database.read() as connection:
                transfer = tables.find_transfer(connection, self.account, terms.token, payment)
        except DatabaseError:
            return SettlementPending("reconciling")
        return SettlementPending() if transfer is None else PaymentSettled(transfer)

    def is_used(self, payment: SignedPayment, terms: Terms) -> bool:
        """Return False: an older copy of the database has an older ledger, too."""
        return False

    def list_facilitators(self, token: Token, now: datetime) -> tuple[str, ...]:
        return (FACILITATOR,)

    def get_gas_account(self, terms: Terms) -> None:
        return None

    def sign(self, payment: SignedPayment, terms: Terms, attempt: Attempt, gas_nonce: int | None) -> None:
        return None

    def send(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> SettlementResult:
        """Move the amount from payer to recipient, once; the same payment again gets the same hash."""
        if attempt.from_block is not None:
            # Authorized when this database had real payments: only its chain can end it.
            _log.error("a real payment is open, and payments are simulated: set payments as they were")
            return SettlementPending("reconciling")
        try:
            return self._transfer(payment, terms, attempt)
        except DatabaseError:
            # A commit whose answer was lost may have moved the value: `look` knows.
            _log.exception("a simulated transfer gave no answer")
            return SettlementPending("reconciling")

    def _transfer(
        self, payment: SignedPayment, terms: Terms, attempt: Attempt
    ) -> PaymentSettled | PaymentRefused:
        with self.database.write() as connection:
            # Locked before the look at the transfer: two workers must not both find none.
            funds = tables.lock_funds(connection, self.account, terms, payment)
            transfer = tables.find_transfer(connection, self.account, terms.token, payment)
            if transfer is not None:
                return PaymentSettled(transfer)
            if attempt.submitted_at.timestamp() >= payment.valid_before:
                return EXPIRED
            amount = payment.value if attempt.amount is None else attempt.amount
            if funds.payer < amount:
                return refuse_short_balance(terms)
            transaction_hash = build_transaction_hash(terms.token, payment)
            tables.record_transfer(connection, self.account, terms, payment, funds, amount, transaction_hash)
            return PaymentSettled(transaction_hash)
