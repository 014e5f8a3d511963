"""A gas account's nonces keep moving, also those of payments that have ended."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from faregate.payments.direct.fees import GWEI
from faregate.payments.direct.gas_account import read_transfer
from faregate.payments.direct.upkeep import Upkeep, keep_nonces_moving
from faregate.service.payments import PaymentPostponed, PaymentSettled, SettlementPending, SignedTransfer
from tests.payments.gas_books import (
    POLICY,
    PRICE,
    SELLER,
    TERMS,
    Clock,
    GasBooks,
    Row,
    Worker,
    wait_for_blocks,
)
from tests.support.chain import USDC, ChainPayer, LocalChain

ELSEWHERE = "0x" + "cd" * 20


@pytest.fixture
def end_early(
    chain: LocalChain, payer: ChainPayer, gas_books: GasBooks
) -> Callable[[Worker], SignedTransfer]:
    """Sign a transfer, die, and let a stranger settle the payment: it has no further attempt."""

    def run(worker: Worker) -> SignedTransfer:
        row = gas_books.add(payer.authorize(USDC, SELLER, PRICE))
        worker.sign(row, row.begin())
        chain.settle(USDC, row.payment)
        assert row.signed is not None
        return row.signed

    return run


def test_a_transfer_whose_payment_ended_is_sent(
    chain: LocalChain,
    payer: ChainPayer,
    gas_books: GasBooks,
    start: Callable[[], Worker],
    end_early: Callable[[Worker], SignedTransfer],
) -> None:
    ended = end_early(start())
    later = gas_books.add(payer.authorize(USDC, SELLER, PRICE))
    worker = start()
    assert isinstance(worker.attempt(later), SettlementPending), "it waits for the gap"
    assert keep_nonces_moving(worker.account, gas_books).sent[0] == ended.transaction_hash
    wait_for_blocks(chain)
    assert isinstance(worker.attempt(later), PaymentSettled)
    assert chain.get_balance(USDC, SELLER) == 2 * PRICE


def test_with_nothing_to_send_nothing_is_done(worker: Worker, gas_books: GasBooks, row: Row) -> None:
    assert keep_nonces_moving(worker.account, gas_books) == Upkeep()
    worker.attempt(row)
    assert keep_nonces_moving(worker.account, gas_books) == Upkeep()


def test_the_first_in_line_is_replaced_and_written_down(
    chain: LocalChain,
    gas_books: GasBooks,
    clock: Clock,
    start: Callable[[], Worker],
    end_early: Callable[[Worker], SignedTransfer],
) -> None:
    ended = end_early(start())
    chain.set_automine(False)
    keep_nonces_moving(start().account, gas_books)
    clock.advance(POLICY.replace_after_seconds)
    done = keep_nonces_moving(start().account, gas_books)
    row = gas_books.rows[0]
    assert row.signed is not None
    assert (done.replaced, done.sent) == (ended.transaction_hash, (row.signed.transaction_hash,))
    assert row.hashes == (ended.transaction_hash, row.signed.transaction_hash)
    assert read_transfer(row.signed).fees.maximum > read_transfer(ended).fees.maximum
    chain.mine()
    assert chain.get_receipt(row.signed.transaction_hash) is not None


def test_a_replacement_that_cannot_be_written_is_not_sent(
    chain: LocalChain, gas_books: GasBooks, clock: Clock, worker: Worker, row: Row
) -> None:
    """Another worker replaced it meanwhile; what the books hold by then is not this worker's."""
    chain.set_automine(False)
    worker.sign(row, row.begin())
    signed = row.signed
    assert signed is not None
    clock.advance(POLICY.replace_after_seconds)

    class Beaten(GasBooks):
        def replace_transfer(self, transfer: SignedTransfer) -> bool:
            return False

    beaten = Beaten()
    beaten.rows = gas_books.rows
    assert keep_nonces_moving(worker.account, beaten).sent == (signed.transaction_hash,)
    waiting = chain.call("txpool_content")["pending"]
    assert [each["hash"] for sender in waiting.values() for each in sender.values()] == [
        signed.transaction_hash
    ]


def test_a_nonce_that_nobody_will_use_is_used_up(
    chain: LocalChain, gas: ChainPayer, gas_books: GasBooks, worker: Worker, row: Row
) -> None:
    """Somebody else's transaction was waiting when the nonce was chosen, and was dropped then."""
    chain.set_automine(False)
    chain.call("anvil_impersonateAccount", gas.address)
    foreign = chain.send(ELSEWHERE, "0x", sender=gas.address)
    worker.attempt(row)
    assert row.signed is not None
    assert row.signed.gas_nonce == 1
    assert keep_nonces_moving(worker.account, gas_books).filled is None, "it still waits"
    chain.drop(foreign)
    chain.mine()
    assert worker.account.count_mined() == 0
    assert keep_nonces_moving(worker.account, gas_books).filled == 0
    chain.mine()
    chain.mine()
    assert isinstance(worker.attempt(row), PaymentSettled)
    assert chain.get_balance(USDC, gas.address) == 0


def test_workers_keep_the_same_account_moving_side_by_side(
    chain: LocalChain, payer: ChainPayer, gas_books: GasBooks, clock: Clock, start: Callable[[], Worker]
) -> None:
    chain.set_automine(False)
    rows = [gas_books.add(payer.authorize(USDC, SELLER, PRICE)) for _ in range(6)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda row: start().attempt(row), rows))
        for _ in range(3):
            clock.advance(POLICY.replace_after_seconds)
            accounts = [start().account for _ in range(4)]
            list(threads.map(lambda account: keep_nonces_moving(account, gas_books), accounts))
            chain.mine()
    worker = start()
    assert all(isinstance(worker.attempt(row), PaymentSettled) for row in rows)
    assert chain.get_balance(USDC, SELLER) == 6 * PRICE
    assert worker.account.count_mined() == 6


def test_a_transfer_below_the_base_fee_is_replaced(
    chain: LocalChain, gas: ChainPayer, gas_books: GasBooks, clock: Clock, row: Row
) -> None:
    """The base fee rose after it was signed, and the node does not even keep it."""
    worker = Worker(chain, gas.private_key, gas_books, clock, replace(POLICY, max_fee=900 * GWEI))
    chain.set_automine(False)
    attempt = worker.sign(row, row.begin())
    assert not isinstance(attempt, PaymentPostponed)
    chain.call("anvil_setNextBlockBaseFeePerGas", hex(200 * GWEI))
    chain.mine()
    worker.send(row, attempt)
    clock.advance(POLICY.replace_after_seconds)
    assert keep_nonces_moving(worker.account, gas_books).replaced is not None
    chain.mine()
    assert isinstance(worker.payments.look(row.payment, TERMS, row.begin()), PaymentSettled)
