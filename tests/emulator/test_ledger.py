"""The simulated ledger by itself, and the signatures it reads."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from eth_account.messages import encode_typed_data

from faregate.emulator import ManualClock, SimulatedLedger, Wallet
from faregate.merchant.models import AccessResource
from faregate.rules.payments import PaymentRefused, PaymentSettled, PaymentVerified
from faregate.x402.eip712 import build_typed_data
from faregate.x402.headers import build_payment_required, parse_payment
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import TOKENS, Token

SELLER = "0x" + "ab" * 20
TERMS = Terms(TOKENS["test", "USDC"], 10_000, SELLER, 60)
RESOURCE = AccessResource(url="https://seller.example/a", mime_type="text/plain")
FIELDS = [
    {"name": name, "type": kind}
    for name, kind in (
        ("from", "address"),
        ("to", "address"),
        ("value", "uint256"),
        ("validAfter", "uint256"),
        ("validBefore", "uint256"),
        ("nonce", "bytes32"),
    )
]


@pytest.fixture
def now(clock: ManualClock) -> datetime:
    return clock()


@pytest.fixture
def payment(clock: ManualClock) -> SignedPayment:
    return parse_payment(Wallet(clock=clock).pay(build_payment_required(TERMS, RESOURCE, "pay", "ab" * 32)))


def test_a_good_payment_is_verified_then_settled_once(payment: SignedPayment, now: datetime) -> None:
    ledger = SimulatedLedger(default_balance=15_000)
    verdict = ledger.verify(payment, TERMS, now=now, committed=5_000)
    assert isinstance(verdict, PaymentVerified)
    assert verdict.payer.lower() == payment.payer
    first = ledger.settle(payment, TERMS, now=now)
    assert isinstance(first, PaymentSettled)
    assert ledger.settle(payment, TERMS, now=now) == first
    assert ledger.balance(TERMS.token, payment.payer) == 5_000
    assert ledger.balance(TERMS.token, SELLER.upper().replace("X", "x")) == 25_000


def test_a_settled_authorization_is_used(payment: SignedPayment, now: datetime) -> None:
    ledger = SimulatedLedger()
    ledger.settle(payment, TERMS, now=now)
    assert ledger.verify(payment, TERMS, now=now, committed=0) == PaymentRefused(
        "the authorization was already used"
    )


def test_what_is_promised_elsewhere_cannot_be_spent(payment: SignedPayment, now: datetime) -> None:
    ledger = SimulatedLedger(default_balance=15_000)
    assert isinstance(ledger.verify(payment, TERMS, now=now, committed=5_001), PaymentRefused)


def test_an_empty_purse_and_an_expired_authorization_do_not_settle(
    payment: SignedPayment, now: datetime
) -> None:
    ledger = SimulatedLedger()
    assert isinstance(ledger.settle(payment, TERMS, now=now + timedelta(seconds=60)), PaymentRefused)
    ledger.set_balance(TERMS.token, payment.payer, 9_999)
    assert isinstance(ledger.settle(payment, TERMS, now=now), PaymentRefused)
    assert ledger.balance(TERMS.token, payment.payer) == 9_999


def test_paying_oneself_changes_nothing(payment: SignedPayment, now: datetime) -> None:
    ledger = SimulatedLedger()
    own = replace(payment, to=payment.payer)
    assert isinstance(ledger.settle(own, TERMS, now=now), PaymentSettled)
    assert ledger.balance(TERMS.token, payment.payer) == 1_000_000_000


def test_every_payment_has_its_own_hash(clock: ManualClock, now: datetime) -> None:
    ledger, wallet = SimulatedLedger(), Wallet(clock=clock)
    instructions = build_payment_required(TERMS, RESOURCE, "pay", "ab" * 32)
    found = {str(ledger.settle(parse_payment(wallet.pay(instructions)), TERMS, now=now)) for _ in range(20)}
    assert len(found) == 20


@pytest.mark.parametrize("token", TOKENS.values(), ids=lambda token: f"{token.symbol}-{token.chain}")
def test_the_hashed_message_is_that_of_eip_712(payment: SignedPayment, token: Token) -> None:
    """Our short hash against the full encoder."""
    domain = {"name": token.name, "version": "2", "chainId": token.chain, "verifyingContract": token.address}
    message = {
        "from": payment.payer,
        "to": payment.to,
        "value": payment.value,
        "validAfter": payment.valid_after,
        "validBefore": payment.valid_before,
        "nonce": bytes.fromhex(payment.nonce[2:]),
    }
    full = encode_typed_data(domain, {"TransferWithAuthorization": FIELDS}, message)
    assert tuple(build_typed_data(payment, token)) == tuple(full)
