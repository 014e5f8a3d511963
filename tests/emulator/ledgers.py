"""Ledgers that decide how payments end, or that cannot be asked."""

from datetime import datetime

from faregate.emulator.ledger import SimulatedLedger
from faregate.rules.payments import (
    PaymentRefused,
    PaymentSettled,
    PaymentsUnavailable,
    PaymentVerified,
    SettlementPending,
)
from faregate.x402.models import SignedPayment, Terms


class ScriptedLedger:
    """Another implementation of `Ledger`: answers what it is told to."""

    def __init__(self) -> None:
        self.answers: list[PaymentSettled | PaymentRefused | SettlementPending | Exception] = []
        self.verified: list[int] = []

    def verify(
        self, payment: SignedPayment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified | PaymentRefused:
        self.verified.append(committed)
        return PaymentVerified(payment.payer) if terms.amount == payment.value else PaymentRefused("no")

    def settle(
        self, payment: SignedPayment, terms: Terms, *, now: datetime
    ) -> PaymentSettled | PaymentRefused | SettlementPending:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class UnreachableLedger(SimulatedLedger):
    """A ledger that nobody can ask, until `reachable` is set."""

    reachable = False

    def verify(
        self, payment: SignedPayment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified | PaymentRefused:
        if not self.reachable:
            raise PaymentsUnavailable
        return super().verify(payment, terms, now=now, committed=committed)
