"""Payments of the scheme `upto` that the service settles with its own gas account."""

from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from faregate.rules.payments import (
    UNKNOWN_AMOUNT,
    Attempt,
    PaymentPostponed,
    PaymentRefused,
    PaymentSettled,
    PaymentVerified,
    SignedTransfer,
)
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct.backend import DirectPayments
from faregate.service.chain.direct.gas_account import GasAccount, read_transfer
from faregate.service.chain.direct.signers import KeySigner
from faregate.service.chain.evidence import ChainTransaction
from faregate.service.chain.permit_calls import build_permit_call, read_permit_call
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.permit2 import UPTO_PROXY
from tests.service.chain.books import SUBMITTED, TO
from tests.service.chain.gas_books import POLICY, Clock
from tests.service.chain.usage_books import MAXIMUM, USED, UsageBooks
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.usage_payments import pay_usage

CLOCK = Clock()


@pytest.fixture
def usage(chain: LocalChain, payer: ChainPayer) -> UsageBooks:
    return UsageBooks(chain, payer)


@pytest.fixture
def payments(usage: UsageBooks) -> Generator[DirectPayments]:
    gas = ChainPayer()
    usage.chain.fund(gas.address)
    reader = ChainReader(USDC.chain, [usage.chain.url], clock=CLOCK)
    yield DirectPayments(GasAccount(reader, KeySigner(gas.private_key), CLOCK, POLICY), reader)
    reader.close()


def offer(payments: DirectPayments) -> Terms:
    return Terms(USDC, MAXIMUM, TO, 60, payments.list_facilitators(USDC, datetime.now(UTC)))


def verify(
    payments: DirectPayments, payment: SignedPayment, terms: Terms
) -> PaymentVerified | PaymentRefused:
    return payments.verify(payment, terms, now=datetime.now(UTC), committed=0)


def sign(
    payments: DirectPayments, payment: SignedPayment, terms: Terms, amount: int = USED
) -> SignedTransfer:
    signed = payments.sign(payment, terms, Attempt(SUBMITTED, 1, 1, amount=amount), None)
    assert isinstance(signed, SignedTransfer), signed
    return signed


def test_the_gas_account_settles_what_was_used(usage: UsageBooks, payments: DirectPayments) -> None:
    terms = offer(payments)
    payment = pay_usage(usage.payer.private_key, terms)
    assert isinstance(verify(payments, payment, terms), PaymentVerified)
    signed = sign(payments, payment, terms)
    attempt = Attempt(SUBMITTED, 1, 1, (signed.transaction_hash,), signed, amount=USED)
    payments.send(payment, terms, attempt)
    usage.chain.mine()
    assert payments.look(payment, terms, attempt) == PaymentSettled(signed.transaction_hash, USED)
    assert usage.chain.get_balance(USDC, TO) == USED
    # Whoever asks for it once more signs nothing: Permit2 would refuse it.
    again = payments.sign(payment, terms, Attempt(SUBMITTED, 2, 1, amount=USED), 1)
    assert isinstance(again, PaymentPostponed)


def test_what_is_signed_says_what_was_used(usage: UsageBooks, payments: DirectPayments) -> None:
    terms = offer(payments)
    payment = pay_usage(usage.payer.private_key, terms)
    call = read_transfer(sign(payments, payment, terms))
    shown = ChainTransaction(hash="0x", to=call.to, input="0x" + call.data.hex())
    assert call.to == UPTO_PROXY.lower()
    assert read_permit_call(shown) == build_permit_call(payment, USDC, USED)
    assert call.gas_limit <= POLICY.max_gas


def test_a_transfer_that_waits_is_replaced_by_the_same_call(
    usage: UsageBooks, payments: DirectPayments
) -> None:
    terms = offer(payments)
    payment = pay_usage(usage.payer.private_key, terms)
    usage.chain.set_automine(False)
    first = sign(payments, payment, terms)
    attempt = Attempt(SUBMITTED, 1, 1, (first.transaction_hash,), first, amount=USED)
    payments.send(payment, terms, attempt)
    CLOCK.advance(POLICY.replace_after_seconds)
    second = payments.sign(payment, terms, replace(attempt, number=2, sent_before=True), 1)
    assert isinstance(second, SignedTransfer)
    assert second.replaces == first.transaction_hash
    assert read_transfer(second).data == read_transfer(first).data
    hashes = (first.transaction_hash, second.transaction_hash)
    payments.send(payment, terms, replace(attempt, signed=second))
    usage.chain.mine(2)
    found = payments.look(payment, terms, replace(attempt, hashes=hashes, signed=second))
    assert isinstance(found, PaymentSettled)
    assert (found.amount, usage.chain.get_balance(USDC, TO)) == (USED, USED)


def test_what_was_signed_for_another_account_is_not_sent(usage: UsageBooks, payments: DirectPayments) -> None:
    """As after a new gas key: the payment expires, and nothing is charged."""
    other = replace(offer(payments), facilitators=(usage.facilitator,))
    payment = pay_usage(usage.payer.private_key, other)
    postponed = payments.sign(payment, other, Attempt(SUBMITTED, 1, 1, amount=USED), None)
    assert postponed == PaymentPostponed(
        f"the payer lets {usage.facilitator} settle, which is not the gas account"
    )
    refused = verify(payments, payment, offer(payments))
    assert isinstance(refused, PaymentRefused)
    assert refused.reason.startswith("witness.facilitator must be")


def test_who_has_not_approved_permit2_is_told_so(usage: UsageBooks, payments: DirectPayments) -> None:
    usage.chain.approve_permit2(USDC, usage.payer.address, 0)
    terms = offer(payments)
    refused = verify(payments, pay_usage(usage.payer.private_key, terms), terms)
    assert isinstance(refused, PaymentRefused)
    assert refused.reason.startswith("permit2_allowance_required: approve 0x0000")


def test_a_payer_with_too_little_is_refused(usage: UsageBooks, payments: DirectPayments) -> None:
    chain, payer = usage.chain, usage.payer
    left = chain.get_balance(USDC, payer.address) - MAXIMUM + 1
    chain.move(USDC, payer.address, "0x" + "cd" * 20, left)
    terms = offer(payments)
    refused = verify(payments, pay_usage(payer.private_key, terms), terms)
    assert refused == PaymentRefused("the payer has not enough USDC")


def test_a_nonce_that_permit2_took_is_refused(usage: UsageBooks, payments: DirectPayments) -> None:
    terms = offer(payments)
    payment = pay_usage(usage.payer.private_key, terms)
    usage.invalidate(payment.nonce)
    refused = verify(payments, payment, terms)
    assert refused == PaymentRefused("the authorization was already used")


def test_without_a_known_use_nothing_is_signed(usage: UsageBooks, payments: DirectPayments) -> None:
    terms = offer(payments)
    payment = pay_usage(usage.payer.private_key, terms)
    assert payments.sign(payment, terms, Attempt(SUBMITTED, 1, 1), None) == PaymentPostponed(UNKNOWN_AMOUNT)
