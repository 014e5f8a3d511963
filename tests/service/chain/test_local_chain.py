"""The local chain does what tests of settlement rely on."""

import secrets
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from examples.chain.token import COMPILED, SOURCE, encode_call

from faregate.x402.eip712 import build_typed_data
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Token
from tests.support.chain import EURC, USDC, ChainPayer, LocalChain

TO = "0x" + "ab" * 20
PRICE = 10_000


def test_the_compiled_token_is_that_of_its_source() -> None:
    pytest.importorskip("vyper")
    command = [sys.executable, "-m", "vyper", str(SOURCE)]
    compiled = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert compiled.stdout.strip() == COMPILED.read_text("ascii").strip()


@pytest.mark.parametrize("token", [USDC, EURC], ids=lambda token: token.symbol)
def test_a_token_signs_as_the_real_one(chain: LocalChain, payer: ChainPayer, token: Token) -> None:
    payment = payer.authorize(token, TO, PRICE)
    assert chain.get_domain_separator(token) == build_typed_data(payment, token).header


def test_an_authorization_moves_money_once(chain: LocalChain, payer: ChainPayer) -> None:
    before = chain.get_balance(USDC, payer.address)
    payment = payer.authorize(USDC, TO, PRICE)
    first, second = _settle(chain, payment), _settle(chain, payment)
    assert (first, second) == ("0x1", "0x0")
    assert chain.get_balance(USDC, TO) == PRICE
    assert chain.get_balance(USDC, payer.address) == before - PRICE


def test_a_signature_may_be_bytes(chain: LocalChain, payer: ChainPayer) -> None:
    """The form that Circle's version 2.2 has for contract wallets, and that some facilitators send."""
    payment = payer.authorize(USDC, TO, PRICE)
    head = encode_call(
        "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
        *(payment.payer, payment.to, payment.value, payment.valid_after, payment.valid_before),
        *(payment.nonce, 7 * 32, 65),
    )
    sent = chain.send(USDC.address, head + payment.signature[2:].ljust(96 * 2, "0"))
    assert _status(chain, sent) == "0x1"
    assert chain.get_balance(USDC, TO) == PRICE


@pytest.mark.parametrize("fault", ["expired", "early", "foreign signature", "another value", "empty payer"])
def test_a_bad_authorization_moves_nothing(chain: LocalChain, payer: ChainPayer, fault: str) -> None:
    now = int(time.time())
    payment = payer.authorize(
        USDC,
        TO,
        PRICE,
        valid_before=now - 1 if fault == "expired" else None,
        valid_after=now + 60 if fault == "early" else 0,
    )
    if fault == "foreign signature":
        payment = replace(payment, signature=ChainPayer().authorize(USDC, TO, PRICE).signature)
    elif fault == "another value":
        payment = replace(payment, value=PRICE - 1)
    elif fault == "empty payer":
        chain.move(USDC, payer.address, "0x" + "cd" * 20, chain.get_balance(USDC, payer.address))
    assert _settle(chain, payment) == "0x0"
    assert chain.get_balance(USDC, TO) == 0


def test_a_cancelled_authorization_moves_nothing(chain: LocalChain, payer: ChainPayer) -> None:
    payment = payer.authorize(USDC, TO, PRICE)
    assert _status(chain, payer.cancel(chain, USDC, payment.nonce)) == "0x1"
    assert chain.is_authorization_used(USDC, payer.address, payment.nonce)
    assert _settle(chain, payment) == "0x0"


def test_only_the_payer_cancels(chain: LocalChain, payer: ChainPayer) -> None:
    nonce = "0x" + secrets.token_hex(32)
    ChainPayer().cancel(chain, USDC, nonce)
    assert not chain.is_authorization_used(USDC, payer.address, nonce)


def test_a_transaction_waits_and_is_dropped(chain: LocalChain, payer: ChainPayer) -> None:
    chain.set_automine(False)
    sent = chain.settle(USDC, payer.authorize(USDC, TO, PRICE))
    assert chain.get_receipt(sent) is None
    chain.drop(sent)
    chain.mine()
    assert chain.get_receipt(sent) is None
    assert chain.get_balance(USDC, TO) == 0


def test_a_reorganisation_takes_a_payment_back(chain: LocalChain, payer: ChainPayer) -> None:
    head = chain.head
    sent = chain.settle(USDC, payer.authorize(USDC, TO, PRICE))
    chain.reorganise(1)
    assert (chain.get_receipt(sent), chain.get_balance(USDC, TO), chain.head) == (None, 0, head + 1)


def test_time_passes_when_told_to(chain: LocalChain) -> None:
    before = chain.time
    chain.advance_time(600)
    assert 600 <= chain.time - before < 660


def _settle(chain: LocalChain, payment: SignedPayment) -> str:
    return _status(chain, chain.settle(USDC, payment))


def _status(chain: LocalChain, transaction_hash: str) -> str:
    receipt = chain.get_receipt(transaction_hash)
    assert receipt is not None
    status: str = receipt["status"]
    return status
