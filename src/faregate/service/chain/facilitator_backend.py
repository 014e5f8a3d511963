"""The payments backend that asks x402 facilitators to settle, and believes the chain only."""

import logging
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.rules.clock import Clock
from faregate.rules.payments import (
    UNKNOWN_AMOUNT,
    Attempt,
    PaymentRefused,
    PaymentSent,
    PaymentsUnavailable,
    PaymentVerified,
    Reservation,
    SettlementResult,
    get_amount,
)
from faregate.rules.verification import USED, check_payment, refuse_short_balance
from faregate.service.chain.chain_reader import VERIFY_SECONDS, ChainReader
from faregate.service.chain.deadline import get_time_left, limit_time
from faregate.service.chain.facilitator import FacilitatorClient, FacilitatorUnavailable
from faregate.service.chain.node_order import take_turns
from faregate.system import system_clock
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Token

_KNOWN_SECONDS: Final = 600.0
_RETRY_SECONDS: Final = 5.0
"""After this a facilitator that did not answer is asked again: each request would wait for it."""


class _Addresses:
    """From where facilitators settle parts of authorizations, as they said at most `_KNOWN_SECONDS` ago.

    What was offered once stays known: a payer may have signed for it. An address with code is left out: it
    could settle inside another call, and which authorization it used there could not be proven.
    """

    def __init__(self, chain: ChainReader) -> None:
        self._chain = chain
        self._known: dict[tuple[FacilitatorClient, str], tuple[float, tuple[str, ...] | None]] = {}

    def find(self, facilitator: FacilitatorClient, network: str, now: float) -> tuple[str, ...] | None:
        """Return its addresses, the one it offers first; None if it never said. `now` is in Unix seconds."""
        until, last_listed = self._known.get((facilitator, network), (0.0, None))
        if now < until:
            return last_listed
        try:
            listed = facilitator.list_addresses(network)
            usable = [address for address in listed if not self._chain.is_contract(address)]
        except (FacilitatorUnavailable, PaymentsUnavailable) as error:
            log("service", logging.WARNING, "The addresses of a facilitator are unknown: %s", error)
            self._keep(facilitator, network, now + _RETRY_SECONDS, last_listed)
            return last_listed
        if len(usable) < len(listed):
            log("service", logging.WARNING, "%s settles by a contract: it is not used so", facilitator.name)
        addresses = tuple(dict.fromkeys((*usable, *(last_listed or ()))))
        self._keep(facilitator, network, now + _KNOWN_SECONDS, addresses)
        return addresses

    def _keep(
        self, facilitator: FacilitatorClient, network: str, until: float, addresses: tuple[str, ...] | None
    ) -> None:
        # Replaced, not changed: other threads read it.
        self._known = {**self._known, (facilitator, network): (until, addresses)}


class FacilitatorPayments:
    """Verify and settle through facilitators, of which there may be several; `chain` is the judge.

    Any facilitator may verify: the next one is asked where one gives no verdict. For a settlement exactly one
    is asked in each attempt, because the service looks at the chain between two attempts.
    """

    def __init__(
        self, facilitators: Sequence[FacilitatorClient], chain: ChainReader, clock: Clock = system_clock
    ) -> None:
        if not facilitators:
            raise ConfigurationError("Name at least one facilitator.")
        self._facilitators = tuple(facilitators)
        self._chain = chain
        self._clock = clock
        self._addresses = _Addresses(chain)

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
        from_block = self._chain.find_first_block()
        # A used one looks as if it had settled before it was sent: no look would ever end it.
        if self._chain.is_authorization_used(terms.token, payment.payer, payment.nonce):
            return USED
        funds = self._chain.read_funds(payment, terms, committed, reservations)
        if funds - committed < payment.value:
            return refuse_short_balance(terms)
        refusal = self._chain.find_missing_approval(payment, terms, reservations, from_block)
        refusal = refusal or self._ask_facilitators(payment, terms, now)
        return refusal or PaymentVerified(checked.payer, from_block, funds)

    @limit_time(VERIFY_SECONDS)
    def list_facilitators(self, token: Token, now: datetime) -> tuple[str, ...]:
        """List from where the facilitators settle parts of authorizations. Raises `PaymentsUnavailable`."""
        of_each = [
            self._addresses.find(facilitator, token.network, now.timestamp())
            for facilitator in self._facilitators
        ]
        listed = tuple(dict.fromkeys(address for addresses in of_each for address in addresses or ()))
        if not listed and None in of_each:
            raise PaymentsUnavailable(
                "no facilitator could say from where it settles parts of authorizations"
            )
        return listed

    @limit_time(VERIFY_SECONDS)
    def is_used(self, payment: SignedPayment, terms: Terms) -> bool:
        """Return whether the authorization was used or cancelled. Raises `PaymentsUnavailable`."""
        return self._chain.is_authorization_used(terms.token, payment.payer, payment.nonce)

    def look(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> SettlementResult:
        """Return what the chain proves."""
        return self._chain.look(payment, terms, attempt)

    def get_gas_account(self, terms: Terms) -> None:
        """Return no account: the facilitator pays the gas."""

    def sign(self, payment: SignedPayment, terms: Terms, attempt: Attempt, gas_nonce: int | None) -> None:
        """Sign nothing: the facilitator does."""

    def send(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> PaymentSent:
        """Ask one facilitator to settle; the next attempt asks the next. Its answer is never believed."""
        able = self._list_able(payment, terms, self._clock())
        chosen = able[(attempt.number - 1) % len(able)]
        amount = get_amount(payment, attempt)
        return PaymentSent(None, UNKNOWN_AMOUNT) if amount is None else chosen.settle(payment, terms, amount)

    def _list_able(self, payment: SignedPayment, terms: Terms, now: datetime) -> Sequence[FacilitatorClient]:
        """List the facilitators that can settle the payment: all, or those that its payer has named."""
        if payment.facilitator is None:
            return self._facilitators
        network, at = terms.token.network, now.timestamp()
        named = [
            facilitator
            for facilitator in self._facilitators
            if payment.facilitator in (self._addresses.find(facilitator, network, at) or ())
        ]
        # One that does not answer now may be the one.
        return named or self._facilitators

    def _ask_facilitators(self, payment: SignedPayment, terms: Terms, now: datetime) -> PaymentRefused | None:
        """Return why a facilitator refuses the payment, None if it is good. Raises `PaymentsUnavailable`."""
        failures: list[str] = []
        for facilitator, _ in take_turns(self._list_able(payment, terms, now), now.timestamp()):
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
