"""What the chain reader proves, on a real EVM, and that it claims nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import pytest

from faregate.rules.payments import (
    Attempt,
    PaymentRefused,
    PaymentSettled,
    PaymentsUnavailable,
    SignedTransfer,
)
from faregate.service.chain import chain_reader
from faregate.service.chain.chain_reader import HEAD_SECONDS, ChainReader
from faregate.x402.tokens import TOKENS
from tests.service.chain.books import PRICE, RECONCILING, SETTLING, SUBMITTED, TERMS, TO, Books, MakeReader
from tests.support.chain import EURC, USDC, ChainPayer, LocalChain, require_anvil, start_chain
from tests.support.rpc_proxy import RpcProxy, serve_rpc_proxy


@pytest.fixture
def reader(chain: LocalChain, make_reader: MakeReader) -> ChainReader:
    return make_reader(chain.url)


# Single facts


def test_facts(chain: LocalChain, reader: ChainReader, payer: ChainPayer) -> None:
    chain.fund(payer.address, 5)
    nonce = "0x" + "07" * 32
    assert reader.get_head() == chain.head
    assert reader.open_view().safe.number == chain.head - 1
    assert reader.get_balance(USDC, payer.address) == 100_000_000
    assert reader.get_ether(payer.address) == 5
    assert not reader.is_authorization_used(USDC, payer.address, nonce)
    payer.cancel(chain, USDC, nonce)
    assert reader.is_authorization_used(USDC, payer.address, nonce)


def test_the_first_block_of_a_payment_is_not_asked_for_each_time(
    chain: LocalChain, proxy: RpcProxy, make_reader: MakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = monotonic()
    monkeypatch.setattr(chain_reader, "monotonic", lambda: now)
    reader = make_reader(proxy.url)
    head = chain.head
    assert reader.find_first_block() == head
    chain.mine(1)
    now += HEAD_SECONDS - 0.1
    assert reader.find_first_block() == head
    assert proxy.count("eth_getBlockByNumber") == 1
    now += 0.2
    assert reader.find_first_block() == chain.head == head + 1


def test_a_token_is_checked(chain: LocalChain, reader: ChainReader) -> None:
    assert [reader.find_token_fault(token) for token in (USDC, EURC)] == [None, None]
    assert reader.find_token_fault(TOKENS["live", "USDC"]) == (
        "there is no contract at 0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913 on chain 8453"
    )
    chain.call("anvil_setCode", EURC.address, chain.call("eth_getCode", USDC.address, "latest"))
    assert reader.find_token_fault(EURC) == f"the contract at {EURC.address} does not sign as EURC version 2"


def test_a_live_payment() -> None:
    """On Base, USDC signs by another name than on Base Sepolia."""
    require_anvil()
    token = TOKENS["live", "USDC"]
    with start_chain(token.chain) as chain:
        reader = ChainReader(token.chain, [chain.url], clock=_now)
        payer = ChainPayer()
        chain.mint(token, payer.address, PRICE)
        payment = payer.authorize(token, TO, PRICE)
        sent = chain.settle(token, payment)
        assert [reader.find_token_fault(TOKENS["live", asset]) for asset in ("USDC", "EURC")] == [None, None]
        assert reader.look(payment, replace(TERMS, token=token), Attempt(SUBMITTED)) == PaymentSettled(sent)
        reader.close()


def test_a_node_of_another_chain_answers_nothing(chain: LocalChain, books: Books) -> None:
    sent = books.settle()
    reader = ChainReader(8453, [chain.url], clock=_now)
    with pytest.raises(PaymentsUnavailable, match="is one of chain 84532, not of 8453"):
        reader.get_head()
    assert books.look(reader, sent) == RECONCILING


# Settled


def test_a_payment_whose_hash_is_known(reader: ChainReader, books: Books) -> None:
    sent = books.settle()
    assert books.look(reader, "0x" + "11" * 32, sent) == PaymentSettled(sent)


def test_a_payment_that_the_gas_account_signed(reader: ChainReader, books: Books) -> None:
    sent = books.settle()
    signed = SignedTransfer("0x" + "00" * 20, 84532, 0, "0x", sent)
    assert reader.look(books.payment, TERMS, Attempt(SUBMITTED, signed=signed)) == PaymentSettled(sent)


def test_a_payment_that_a_stranger_sent(chain: LocalChain, reader: ChainReader, books: Books) -> None:
    """Whoever sees a signature may send it. The money moved: the stranger's hash wins, ours reverted."""
    theirs = books.settle()
    ours = books.settle()
    chain.mine(5)
    receipt = chain.get_receipt(ours)
    assert receipt is not None
    assert receipt["status"] == "0x0"
    assert books.look(reader, ours) == PaymentSettled(theirs)
    assert books.look(reader) == PaymentSettled(theirs)


def test_confirmations_are_waited_for(chain: LocalChain, make_reader: MakeReader, books: Books) -> None:
    reader = make_reader(chain.url, confirmations=3)
    sent = books.settle()
    chain.mine(1)
    assert [books.look(reader, sent), books.look(reader)] == [SETTLING, SETTLING]
    chain.mine(1)
    assert [books.look(reader, sent), books.look(reader)] == [PaymentSettled(sent)] * 2


def test_a_block_that_is_replaced_meanwhile_is_no_confirmation(
    chain: LocalChain, make_reader: MakeReader, books: Books
) -> None:
    """The crash campaign found it: the block was read, then replaced, and then the head was two blocks on."""
    sent, replaced = books.settle(), list[str]()

    def replace_block(params: list[Any], result: Any) -> Any:
        if params[0] != "latest" and not replaced:
            replaced.append(params[0])
            chain.reorganise(1)
            chain.mine(1)
        return result

    with serve_rpc_proxy(chain.url) as node:
        node.change["eth_getBlockByNumber"] = replace_block
        found = books.look(make_reader(node.url, confirmations=2), sent)
    assert (len(replaced), found) == (1, SETTLING)
    assert not chain.is_authorization_used(USDC, books.payment.payer, books.payment.nonce)


# Refused


def test_a_cancelled_payment(chain: LocalChain, reader: ChainReader, payer: ChainPayer, books: Books) -> None:
    payer.cancel(chain, USDC, books.payment.nonce)
    sent = books.settle()
    chain.mine()
    refused = PaymentRefused("the payer cancelled the authorization")
    assert [books.look(reader), books.look(reader, sent)] == [refused, refused]


def test_a_cancellation_counts_once_it_is_safe(
    chain: LocalChain, reader: ChainReader, payer: ChainPayer, books: Books
) -> None:
    """A reorganisation may take it away, and let the payment through after all."""
    payer.cancel(chain, USDC, books.payment.nonce)
    assert books.look(reader) == SETTLING
    chain.reorganise(1)
    sent = books.settle()
    assert books.look(reader) == PaymentSettled(sent)


def test_an_expired_payment(chain: LocalChain, reader: ChainReader, books: Books) -> None:
    chain.advance_time(301)
    assert books.look(reader) == PaymentRefused("the authorization expired unused")


def test_an_expiry_counts_once_it_is_safe(chain: LocalChain, reader: ChainReader, books: Books) -> None:
    chain.call("evm_increaseTime", 301)
    chain.mine(1)
    assert chain.time >= books.payment.valid_before
    assert books.look(reader) == SETTLING
    chain.mine(1)
    assert isinstance(books.look(reader), PaymentRefused)


def test_an_expiry_counts_once_our_clock_agrees(chain: LocalChain, books: Books) -> None:
    chain.advance_time(301)
    late = datetime.fromtimestamp(books.payment.valid_before, UTC)
    for clock, expected in ((late - timedelta(seconds=1), False), (late, True)):
        reader = ChainReader(84532, [chain.url], clock=partial(_get, clock))
        assert isinstance(books.look(reader), PaymentRefused) is expected


def test_a_payment_after_its_expiry_was_settled_before(
    chain: LocalChain, reader: ChainReader, books: Books
) -> None:
    sent = books.settle()
    chain.advance_time(301)
    assert books.look(reader) == PaymentSettled(sent)


def test_a_nonce_that_was_used_for_another_payment(
    chain: LocalChain, reader: ChainReader, payer: ChainPayer, books: Books
) -> None:
    """A payer may sign one nonce twice, and send the other one."""
    chain.settle(USDC, payer.authorize(USDC, payer.address, PRICE, nonce=books.payment.nonce))
    assert books.look(reader) == SETTLING
    chain.mine()
    assert books.look(reader) == PaymentRefused(
        "the payer used the authorization's nonce for another payment"
    )


@pytest.mark.parametrize("change", ["to", "value", "token"])
def test_another_transfer_is_no_payment(
    chain: LocalChain, reader: ChainReader, payer: ChainPayer, books: Books, change: str
) -> None:
    chain.mint(EURC, payer.address, PRICE)
    to, value = ("0x" + "ef" * 20 if change == "to" else TO), PRICE - (change == "value")
    token = EURC if change == "token" else USDC
    sent = chain.settle(token, payer.authorize(token, to, value, nonce=books.payment.nonce))
    assert books.look(reader, sent) == SETTLING


# Pending


def test_a_payment_that_is_stuck(chain: LocalChain, reader: ChainReader, books: Books) -> None:
    chain.set_automine(False)
    sent = books.settle()
    assert books.look(reader, sent) == SETTLING
    chain.mine()
    assert books.look(reader, sent) == PaymentSettled(sent)


def test_a_later_attempt_is_reconciling(chain: LocalChain, reader: ChainReader, books: Books) -> None:
    assert (
        reader.look(books.payment, TERMS, Attempt(SUBMITTED, 2, chain.head, sent_before=True)) == RECONCILING
    )


def test_a_payment_that_was_dropped(chain: LocalChain, reader: ChainReader, books: Books) -> None:
    chain.set_automine(False)
    sent = books.settle()
    chain.drop(sent)
    chain.mine(3)
    assert books.look(reader, sent) == SETTLING
    again = books.settle()
    chain.mine()
    assert books.look(reader, sent) == PaymentSettled(again)


def test_a_payment_that_was_reorganised_away(chain: LocalChain, reader: ChainReader, books: Books) -> None:
    sent = books.settle()
    chain.reorganise(1)
    assert books.look(reader, sent) == SETTLING
    again = books.settle()
    assert books.look(reader, sent) == PaymentSettled(again)


def test_a_chain_that_became_shorter_than_at_authorization(
    chain: LocalChain, reader: ChainReader, payer: ChainPayer
) -> None:
    """A block of before the reorganisation does not hide the payment for ever."""
    before = chain.call("evm_snapshot")
    chain.mine(20)
    books = Books(chain, payer)
    chain.call("evm_revert", before)
    sent = books.settle()
    assert books.look(reader) == PaymentSettled(sent)


def test_a_payer_who_was_emptied(
    chain: LocalChain, reader: ChainReader, payer: ChainPayer, books: Books
) -> None:
    chain.move(USDC, payer.address, "0x" + "cd" * 20, 100_000_000)
    sent = books.settle()
    chain.mine(3)
    assert books.look(reader, sent) == SETTLING
    chain.mint(USDC, payer.address, PRICE)
    again = books.settle()
    assert books.look(reader, sent) == PaymentSettled(again)


def test_a_hash_that_is_not_of_this_payment(
    chain: LocalChain, reader: ChainReader, payer: ChainPayer, books: Books
) -> None:
    """A facilitator may name any transaction."""
    other = chain.settle(USDC, payer.authorize(USDC, TO, PRICE))
    plain = chain.move(USDC, payer.address, TO, PRICE)
    assert books.look(reader, other, plain) == SETTLING


def _get(moment: datetime) -> datetime:
    return moment


def _now() -> datetime:
    return datetime.now(UTC)
