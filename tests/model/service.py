"""The service, as small as it can be: one payment, what is asked of it, what it then is.

Rules
1. Access opens a payment once; asked again it says the same while the payment is open, 202 while it
   settles, 402 once it is final.
2. The first outcome that is reported stands. The same again is answered with how things are now,
   another one is a conflict.
3. A payment settles by itself, at any moment; what is final stays.
4. Nobody waits for an outcome for ever: an authorization that got none in its time has failed.
"""

from typing import NamedTuple

NEW, AUTHORIZED, SETTLING, SUCCEEDED, FAILED = "new", "authorized", "settling", "succeeded", "failed"
OPEN = (AUTHORIZED, SETTLING)
FINAL = (SUCCEEDED, FAILED)
CONFLICT, UNKNOWN = "conflict", "unknown"


class Payment(NamedTuple):
    """One payment at the service, and the outcome it accepted."""

    status: str = NEW
    accepted: str = ""


def access(payment: Payment, waits: bool) -> tuple[Payment, str]:
    """A payment that `waits` settles by itself, without work of ours."""
    if payment.status == NEW:
        payment = Payment(SETTLING if waits else AUTHORIZED)
    return payment, payment.status


def complete(payment: Payment, outcome: str, slowly: bool) -> tuple[Payment, str]:
    """Paid for at once, or `slowly`."""
    if payment.status == NEW:
        return payment, UNKNOWN
    if payment.status == AUTHORIZED:
        payment = Payment(_after(outcome, slowly), outcome)
    return payment, payment.status if payment.accepted == outcome else CONFLICT


def _after(outcome: str, slowly: bool) -> str:
    if outcome.startswith(FAILED):
        return FAILED
    return SETTLING if slowly else SUCCEEDED


def standing(payment: Payment) -> str:
    return UNKNOWN if payment.status == NEW else payment.status


def expired(payment: Payment) -> Payment:
    return payment._replace(status=FAILED) if payment.status == AUTHORIZED else payment


def settled(payment: Payment, status: str) -> Payment:
    """What the network decided about a payment that was settling."""
    return payment._replace(status=status) if payment.status == SETTLING else payment
