"""A gas account's nonces keep moving, also those of payments that have ended."""

from concurrent.futures import ThreadPoolExecutor

from faregate.rules.payments import PaymentSettled, SettlementPending, SignedTransfer
from faregate.service.chain.direct.fees import GWEI
from faregate.service.chain.direct.gas_account import read_transfer
from faregate.service.chain.direct.upkeep import Upkeep, keep_nonces_moving
from tests.service.chain.direct_fixtures import DirectSettlement
from tests.service.chain.gas_books import PRICE, TERMS, GasBooks, Row, Worker, wait_for_blocks
from tests.support.chain import USDC

ELSEWHERE = "0x" + "cd" * 20


def end_early(direct: DirectSettlement) -> SignedTransfer:
    """Sign a transfer, die, and let a stranger settle the payment: it has no further attempt."""
    row = direct.add()
    direct.start().sign(row)
    direct.chain.settle(USDC, row.payment)
    return row.transfer


def test_a_transfer_whose_payment_ended_is_sent(direct: DirectSettlement) -> None:
    ended = end_early(direct)
    later = direct.add()
    worker = direct.start()
    assert isinstance(worker.attempt(later), SettlementPending), "it waits for the gap"
    assert keep_nonces_moving(worker.account, direct.books).sent[0] == ended.transaction_hash
    wait_for_blocks(direct.chain)
    assert isinstance(worker.attempt(later), PaymentSettled)
    assert direct.received == 2 * PRICE


def test_with_nothing_to_send_nothing_is_done(direct: DirectSettlement, worker: Worker, row: Row) -> None:
    assert keep_nonces_moving(worker.account, direct.books) == Upkeep()
    worker.attempt(row)
    assert keep_nonces_moving(worker.account, direct.books) == Upkeep()


def test_the_first_in_line_is_replaced_and_written_down(direct: DirectSettlement) -> None:
    ended = end_early(direct)
    direct.chain.set_automine(False)
    keep_nonces_moving(direct.start().account, direct.books)
    direct.let_it_get_stuck()
    done = keep_nonces_moving(direct.start().account, direct.books)
    row = direct.books.rows[0]
    assert (done.replaced, done.sent) == (ended.transaction_hash, (row.transfer.transaction_hash,))
    assert row.hashes == (ended.transaction_hash, row.transfer.transaction_hash)
    assert read_transfer(row.transfer).fees.maximum > read_transfer(ended).fees.maximum
    direct.chain.mine()
    assert direct.chain.get_receipt(row.transfer.transaction_hash) is not None


def test_a_replacement_that_cannot_be_written_is_not_sent(
    direct: DirectSettlement, worker: Worker, row: Row
) -> None:
    """Another worker replaced it meanwhile; what the books hold by then is not this worker's."""
    direct.chain.set_automine(False)
    worker.sign(row)
    signed = row.transfer
    direct.let_it_get_stuck()

    class Beaten(GasBooks):
        def replace_transfer(self, transfer: SignedTransfer) -> bool:
            return False

    beaten = Beaten()
    beaten.rows = direct.books.rows
    assert keep_nonces_moving(worker.account, beaten).sent == (signed.transaction_hash,)
    waiting = direct.chain.call("txpool_content")["pending"]
    assert [each["hash"] for sender in waiting.values() for each in sender.values()] == [
        signed.transaction_hash
    ]


def test_a_nonce_that_nobody_will_use_is_used_up(direct: DirectSettlement, worker: Worker, row: Row) -> None:
    """Somebody else's transaction was waiting when the nonce was chosen, and was dropped then."""
    direct.chain.set_automine(False)
    direct.chain.call("anvil_impersonateAccount", direct.gas.address)
    foreign = direct.chain.send(ELSEWHERE, "0x", sender=direct.gas.address)
    worker.attempt(row)
    assert row.transfer.gas_nonce == 1
    assert keep_nonces_moving(worker.account, direct.books).filled is None, "it still waits"
    direct.chain.drop(foreign)
    direct.chain.mine()
    assert worker.account.count_mined() == 0
    assert keep_nonces_moving(worker.account, direct.books).filled == 0
    direct.chain.mine()
    direct.chain.mine()
    assert isinstance(worker.attempt(row), PaymentSettled)
    assert direct.chain.get_balance(USDC, direct.gas.address) == 0


def test_workers_keep_the_same_account_moving_side_by_side(direct: DirectSettlement) -> None:
    direct.chain.set_automine(False)
    rows = [direct.add() for _ in range(6)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda row: direct.start().attempt(row), rows))
        for _ in range(3):
            direct.let_it_get_stuck()
            accounts = [direct.start().account for _ in range(4)]
            list(threads.map(lambda account: keep_nonces_moving(account, direct.books), accounts))
            direct.chain.mine()
    worker = direct.start()
    assert all(isinstance(worker.attempt(row), PaymentSettled) for row in rows)
    assert direct.received == 6 * PRICE
    assert worker.account.count_mined() == 6


def test_a_transfer_below_the_base_fee_is_replaced(direct: DirectSettlement, row: Row) -> None:
    """The base fee rose after it was signed, and the node does not even keep it."""
    worker = direct.start(max_fee=900 * GWEI)
    direct.chain.set_automine(False)
    attempt = worker.sign(row)
    direct.chain.call("anvil_setNextBlockBaseFeePerGas", hex(200 * GWEI))
    direct.chain.mine()
    worker.send(row, attempt)
    direct.let_it_get_stuck()
    assert keep_nonces_moving(worker.account, direct.books).replaced is not None
    direct.chain.mine()
    assert isinstance(worker.payments.look(row.payment, TERMS, row.begin()), PaymentSettled)
