"""What a payer has for one more payment, beside what its open transactions reserve."""

from collections.abc import Sequence
from typing import Final

from faregate.payments.chain import ChainReader
from faregate.service.payments import Reservation
from faregate.x402.models import SignedPayment, Terms

MOST_LOOKED_UP: Final = 32
"""Reservations that one access asks the chain for, at most: each is a call."""


def read_funds(
    chain: ChainReader,
    payment: SignedPayment,
    terms: Terms,
    committed: int,
    reservations: Sequence[Reservation],
    block: int,
) -> int:
    """Return the payer's balance, with what the chain has taken for `reservations`; atomic units.

    The books learn of a transfer some time after its block. Until then its amount is reserved, and not in the
    balance any more: counted twice, it would refuse a payer who has enough. So where the balance alone is
    short, `block` is asked which authorizations were used. One that was cancelled counts like one that was
    used: it is reserved, too, until the books learn of that.

    Raises `PaymentsUnavailable`.
    """
    funds = chain.get_balance(terms.token, payment.payer)
    needed = committed + payment.value
    if funds >= needed or funds < payment.value:
        return funds
    # Balance and authorizations as of one block: a transfer between two questions would be in both.
    funds = chain.get_balance(terms.token, payment.payer, block)
    for one in reservations[:MOST_LOOKED_UP]:
        if funds >= needed:
            break
        if chain.is_authorization_used(terms.token, payment.payer, one.nonce, block):
            funds += one.value
    return funds
