"""What a payer has: an amount that is reserved, and has left the balance already, counts once."""

from dataclasses import replace
from typing import Any

import pytest

from faregate.rules.payments import Payments, PaymentVerified, Reservation
from faregate.service.chain.chain_reader import MOST_LOOKED_UP, ChainReader
from faregate.service.chain.facilitator_backend import FacilitatorPayments
from faregate.system import system_clock
from faregate.x402.models import SignedPayment
from tests.service.chain.facilitated import make_client, sign_payment
from tests.service.chain.gas_books import PRICE, TERMS, Worker
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.faulty_facilitator import FaultyFacilitator, says_valid
from tests.support.rpc_proxy import RpcProxy

BALANCE_OF = "0x70a08231"


@pytest.fixture
def tight(chain: LocalChain) -> ChainPayer:
    """A payer who can pay for three sales."""
    payer = ChainPayer()
    chain.mint(USDC, payer.address, 3 * PRICE)
    return payer


@pytest.fixture
def distant(proxy: RpcProxy) -> ChainReader:
    return ChainReader(USDC.chain, [proxy.url], clock=system_clock)


def reserve(*payments: SignedPayment) -> tuple[Reservation, ...]:
    return tuple(Reservation(one.nonce, one.value) for one in payments)


def read(
    chain: LocalChain, reader: ChainReader, payment: SignedPayment, reservations: tuple[Reservation, ...]
) -> int:
    committed = sum(one.value for one in reservations)
    return reader.read_funds(payment, TERMS, committed, reservations)


@pytest.mark.parametrize("kind", ["direct", "facilitated"])
def test_a_payer_with_enough_is_not_refused_while_the_books_are_behind(
    kind: str, chain: LocalChain, tight: ChainPayer, worker: Worker
) -> None:
    mined, waiting, payment = (sign_payment(tight, TERMS) for _ in range(3))
    chain.settle(USDC, mined)
    facilitator = FaultyFacilitator("http://127.0.0.1:9")
    facilitator.fail_always("verify", says_valid)
    reader = ChainReader(USDC.chain, [chain.url], clock=system_clock)
    with facilitator.serving() as url:
        payments: Payments = worker.payments
        if kind == "facilitated":
            payments = FacilitatorPayments([make_client(url)], reader)
        verified = payments.verify(
            payment, TERMS, now=system_clock(), committed=2 * PRICE, reservations=reserve(waiting, mined)
        )
    assert verified == PaymentVerified(tight.address, chain.head, 3 * PRICE)


def test_what_is_not_mined_is_reserved(chain: LocalChain, tight: ChainPayer, distant: ChainReader) -> None:
    payment = sign_payment(tight, TERMS)
    others = reserve(*(sign_payment(tight, TERMS) for _ in range(3)))
    assert read(chain, distant, payment, others) == 3 * PRICE


def test_a_transfer_between_two_questions_is_in_none_of_the_answers(
    chain: LocalChain, tight: ChainPayer, proxy: RpcProxy, distant: ChainReader
) -> None:
    """Balance and authorizations are read as of one block: else its amount would count once too often."""
    payment, mined, *others = (sign_payment(tight, TERMS) for _ in range(4))
    chain.settle(USDC, others[0])

    def settle_after_the_balance(params: list[Any], result: Any) -> Any:
        if params[0]["data"].startswith(BALANCE_OF) and params[1] != "latest":
            proxy.change.clear()
            chain.settle(USDC, mined)
        return result

    proxy.change["eth_call"] = settle_after_the_balance
    reservations = reserve(mined, *others)
    assert distant.read_funds(payment, TERMS, 3 * PRICE, reservations) == 3 * PRICE
    assert chain.get_balance(USDC, tight.address) == PRICE


def test_few_questions_are_asked(
    chain: LocalChain, tight: ChainPayer, proxy: RpcProxy, distant: ChainReader
) -> None:
    payment = sign_payment(tight, TERMS)
    others = reserve(*[replace(payment, nonce=f"0x{number:064x}") for number in range(50)])

    def count(committed: int, value: int = PRICE) -> int:
        proxy.calls.clear()
        asked = replace(payment, value=value)
        distant.read_funds(asked, TERMS, committed, others)
        return proxy.count("eth_call")

    distant.get_head()
    assert count(2 * PRICE) == 1, "there is enough"
    assert count(2 * PRICE, 4 * PRICE) == 1, "nothing could be enough"
    assert count(50 * PRICE) == 2 + MOST_LOOKED_UP
