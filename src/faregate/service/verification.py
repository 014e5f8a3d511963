"""Check a payment as far as neither ledger nor chain is needed. Pure; every backend starts here.

The rules for amounts, addresses and times are in `faregate.x402.terms`; what the catalog and earlier payments
allow is decided by `faregate.service.operations.access`.
"""

from datetime import datetime

from faregate.service.payments import PaymentRefused, PaymentVerified
from faregate.x402.eip712 import recover_signer
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.terms import find_mismatch


def check_payment(payment: SignedPayment, terms: Terms, now: datetime) -> PaymentVerified | PaymentRefused:
    """Check the payment against the terms at `now`, and its signature. Balances and used nonces are left."""
    fault = find_mismatch(payment, terms, now)
    if fault is not None:
        return PaymentRefused(fault)
    signer = recover_signer(payment, terms.token)
    if signer is None or signer.lower() != payment.payer:
        return PaymentRefused("the signature is not the payer's for this authorization")
    return PaymentVerified(signer)


def refuse_short_balance(terms: Terms) -> PaymentRefused:
    """Build the refusal of a payer whose balance, less what is reserved, does not cover the payment."""
    return PaymentRefused(f"the payer has not enough {terms.token.symbol}")
