"""The payments backend that asks x402 facilitators to settle, and believes the chain only."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.payments.facilitator import FacilitatorClient, FacilitatorUnavailable, Verdict
from faregate.service.payments import (
    Attempt,
    PaymentPending,
    PaymentRefused,
    PaymentSent,
    PaymentSettled,
    PaymentsUnavailable,
    PaymentVerified,
)
from faregate.service.verification import check_payment, refuse_short_balance
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Token

REST: Final = timedelta(seconds=30)
"""For so long a facilitator that gave no verdict is asked last: payers need not wait for it each time."""


class Chain(Protocol):
    """What this backend asks the chain. `get_balance` and `get_head` raise `PaymentsUnavailable`."""

    def look(
        self, payment: SignedPayment, terms: Terms, attempt: Attempt
    ) -> PaymentSettled | PaymentRefused | PaymentPending: ...

    def get_balance(self, token: Token, address: str) -> int: ...

    def get_head(self) -> int: ...


class FacilitatorPayments:
    """Verify and settle through facilitators, of which there may be several; `chain` is the judge.

    Any facilitator may verify: the next one is asked where one gives no verdict. For a settlement exactly one
    is asked in each attempt, because the service looks at the chain between two attempts.
    """

    def __init__(self, facilitators: Sequence[FacilitatorClient], chain: Chain) -> None:
        if not facilitators:
            raise ConfigurationError("Name at least one facilitator.")
        self._facilitators = tuple(facilitators)
        self._chain = chain
        self._resting: dict[str, datetime] = {}
        """When a facilitator that gave no verdict is asked in its turn again, by its name."""

    def verify(
        self, payment: SignedPayment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified | PaymentRefused:
        """Check the payment: by itself, against the payer's balance, and by a facilitator."""
        checked = check_payment(payment, terms, now)
        if isinstance(checked, PaymentRefused):
            return checked
        # Before anybody else is shown the payment: what is on the chain of it, is in this block or later.
        from_block = self._chain.get_head()
        if self._chain.get_balance(terms.token, payment.payer) - committed < payment.value:
            return refuse_short_balance(terms)
        verdict = self._ask_for_verdict(payment, terms, now)
        if not verdict.is_valid:
            return PaymentRefused(verdict.reason)
        return PaymentVerified(checked.payer, from_block)

    def look(
        self, payment: SignedPayment, terms: Terms, attempt: Attempt
    ) -> PaymentSettled | PaymentRefused | PaymentPending:
        """Return what the chain proves."""
        return self._chain.look(payment, terms, attempt)

    def get_gas_account(self, terms: Terms) -> None:
        """Return no account: the facilitator pays the gas."""

    def sign(self, payment: SignedPayment, terms: Terms, attempt: Attempt, gas_nonce: int | None) -> None:
        """Sign nothing: the facilitator does."""

    def send(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> PaymentSent:
        """Ask one facilitator to settle; the next attempt asks the next. Its answer is never believed."""
        chosen = self._facilitators[(attempt.number - 1) % len(self._facilitators)]
        return chosen.settle(payment, terms)

    def close(self) -> None:
        """Close the connections to the facilitators."""
        for facilitator in self._facilitators:
            facilitator.close()

    def _ask_for_verdict(self, payment: SignedPayment, terms: Terms, now: datetime) -> Verdict:
        failures: list[str] = []
        for facilitator in self._list_by_turn(now):
            try:
                return facilitator.verify(payment, terms)
            except FacilitatorUnavailable as error:
                self._resting[facilitator.name] = now + REST
                failures.append(str(error))
                log(logging.WARNING, "A facilitator gave no verdict: %s", error)
        raise PaymentsUnavailable(f"no facilitator could verify the payment: {'; '.join(failures)}")

    def _list_by_turn(self, now: datetime) -> list[FacilitatorClient]:
        """List the facilitators in their order, those that rest last."""
        return sorted(self._facilitators, key=lambda one: self._resting.get(one.name, now) > now)
