"""The payments backend that asks x402 facilitators to settle, and believes the chain only."""

import logging
import math
from collections.abc import Sequence
from datetime import datetime

from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.rules.payments import (
    Attempt,
    PaymentRefused,
    PaymentSent,
    PaymentsUnavailable,
    PaymentVerified,
    Reservation,
    SettlementResult,
)
from faregate.rules.verification import USED, check_payment, refuse_short_balance
from faregate.service.chain.chain import VERIFY_SECONDS, ChainReader
from faregate.service.chain.deadline import get_time_left, limit_time
from faregate.service.chain.facilitator import FacilitatorClient, FacilitatorUnavailable
from faregate.service.chain.failover import take_turns
from faregate.x402.models import SignedPayment, Terms


class FacilitatorPayments:
    """Verify and settle through facilitators, of which there may be several; `chain` is the judge.

    Any facilitator may verify: the next one is asked where one gives no verdict. For a settlement exactly one
    is asked in each attempt, because the service looks at the chain between two attempts.
    """

    def __init__(self, facilitators: Sequence[FacilitatorClient], chain: ChainReader) -> None:
        if not facilitators:
            raise ConfigurationError("Name at least one facilitator.")
        self._facilitators = tuple(facilitators)
        self._chain = chain

    @limit_time(VERIFY_SECONDS)
    def verify(
        self,
        payment: SignedPayment,
        terms: Terms,
        *,
        now: datetime,
        committed: int,
        reservations: Sequence[Reservation] = (),
    ) -> PaymentVerified | PaymentRefused:
        """Check the payment: by itself, on the chain, and by a facilitator. Raises `PaymentsUnavailable`."""
        checked = check_payment(payment, terms, now)
        if isinstance(checked, PaymentRefused):
            return checked
        # Read before a facilitator is shown the payment: it can be in no earlier block.
        from_block = self._chain.get_head()
        # A used one looks as if it had settled before it was sent: no look would ever end it.
        if self._chain.is_authorization_used(terms.token, payment.payer, payment.nonce):
            return USED
        funds = self._chain.read_funds(payment, terms, committed, reservations, from_block)
        if funds - committed < payment.value:
            return refuse_short_balance(terms)
        refusal = self._ask_facilitators(payment, terms, now)
        return refusal or PaymentVerified(checked.payer, from_block, funds)

    def look(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> SettlementResult:
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

    def _ask_facilitators(self, payment: SignedPayment, terms: Terms, now: datetime) -> PaymentRefused | None:
        """Return why a facilitator refuses the payment, None if it is good. Raises `PaymentsUnavailable`."""
        failures: list[str] = []
        for facilitator, _ in take_turns(self._facilitators, now.timestamp()):
            if failures and get_time_left(math.inf) <= 0:
                break
            try:
                verdict = facilitator.verify(payment, terms)
            except FacilitatorUnavailable as error:
                facilitator.rest.record_failure(now.timestamp())
                failures.append(str(error))
                log("service", logging.WARNING, "A facilitator gave no verdict: %s", error)
            else:
                facilitator.rest.record_success()
                return None if verdict.is_valid else PaymentRefused(verdict.reason)
        raise PaymentsUnavailable(f"no facilitator could verify the payment: {'; '.join(failures)}")
