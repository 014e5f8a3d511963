"""Direct settlement on a real chain: one transfer for each payment, and no gas nonce that is never used."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from faregate.payments.chain import ChainReader
from faregate.payments.direct.backend import DirectPayments
from faregate.payments.direct.fees import GWEI
from faregate.payments.direct.gas_account import GasAccount, read_transfer
from faregate.payments.direct.signers import KeySigner
from faregate.service.payments import (
    PaymentPostponed,
    PaymentSettled,
    PaymentsUnavailable,
    SettlementPending,
    SignedTransfer,
)
from tests.payments.gas_books import POLICY, PRICE, SELLER, TERMS, Clock, GasBooks, Row, Worker
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.rpc_proxy import RpcProxy, fail_with

ELSEWHERE = "0x" + "cd" * 20


def is_mined(chain: LocalChain, transfer: SignedTransfer | None) -> bool:
    assert transfer is not None
    return chain.get_receipt(transfer.transaction_hash) is not None


def has_reverted(chain: LocalChain, transfer: SignedTransfer | None) -> bool:
    assert transfer is not None
    receipt = chain.get_receipt(transfer.transaction_hash)
    return receipt is not None and receipt["status"] == "0x0"


def empty(chain: LocalChain, payer: ChainPayer) -> None:
    chain.move(USDC, payer.address, ELSEWHERE, chain.get_balance(USDC, payer.address))


def assert_moving(chain: LocalChain, payer: ChainPayer, gas_books: GasBooks, worker: Worker) -> None:
    """No gas nonce stops a later payment."""
    chain.mint(USDC, payer.address, PRICE)
    later = gas_books.add(payer.authorize(USDC, SELLER, PRICE))
    assert isinstance(worker.attempt(later), PaymentSettled)


def test_it_settles(chain: LocalChain, worker: Worker, row: Row) -> None:
    seen = worker.attempt(row)
    assert row.signed is not None
    assert seen == PaymentSettled(row.signed.transaction_hash)
    assert chain.get_balance(USDC, SELLER) == PRICE


def test_signing_sends_nothing(chain: LocalChain, worker: Worker, row: Row) -> None:
    worker.sign(row, row.begin())
    chain.mine()
    assert not is_mined(chain, row.signed)
    assert worker.account.count_mined() == 0


def test_four_at_once_settle(
    chain: LocalChain, payer: ChainPayer, gas_books: GasBooks, worker: Worker
) -> None:
    rows = [gas_books.add(payer.authorize(USDC, SELLER, PRICE)) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(worker.attempt, rows))
    chain.mine()
    assert all(isinstance(worker.attempt(row), PaymentSettled) for row in rows)
    assert chain.get_balance(USDC, SELLER) == 4 * PRICE
    assert sorted(row.signed.gas_nonce for row in rows if row.signed) == [0, 1, 2, 3]


def test_two_workers_never_share_a_nonce(
    payer: ChainPayer, gas_books: GasBooks, chain: LocalChain, start: Callable[[], Worker]
) -> None:
    """Both read the same next free nonce; the slower one signs again."""
    rows = [gas_books.add(payer.authorize(USDC, SELLER, PRICE)) for _ in range(2)]
    both_signed = threading.Barrier(2, timeout=20)
    waits = [True, True]

    def sign(number: int) -> None:
        def wait() -> None:
            if waits[number]:
                waits[number] = False
                both_signed.wait()

        one = start()
        attempt = one.sign(rows[number], rows[number].begin(), before_record=wait)
        assert not isinstance(attempt, PaymentPostponed)
        one.send(rows[number], attempt)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(sign, range(2)))
    assert gas_books.conflicts == 1
    assert sorted(row.signed.gas_nonce for row in rows if row.signed) == [0, 1]
    chain.mine()
    worker = start()
    assert all(isinstance(worker.attempt(row), PaymentSettled) for row in rows)


def test_a_nonce_that_is_written_down_is_taken_though_nothing_was_sent(
    payer: ChainPayer, gas_books: GasBooks, start: Callable[[], Worker], row: Row
) -> None:
    """Its worker may be dead, or about to send."""
    start().sign(row, row.begin())
    other = gas_books.add(payer.authorize(USDC, SELLER, PRICE))
    start().sign(other, other.begin())
    assert [each.signed.gas_nonce for each in (row, other) if each.signed] == [0, 1]
    assert isinstance(start().attempt(row), PaymentSettled)
    assert isinstance(start().attempt(other), PaymentSettled)


def test_a_crash_before_sending_sends_the_same_transfer(
    chain: LocalChain, start: Callable[[], Worker], row: Row
) -> None:
    start().sign(row, row.begin())
    signed = row.signed
    assert signed is not None
    assert start().attempt(row) == PaymentSettled(signed.transaction_hash)
    assert row.hashes == (signed.transaction_hash,)
    assert chain.get_balance(USDC, SELLER) == PRICE


def test_a_crash_after_sending_sends_nothing_new(
    chain: LocalChain, start: Callable[[], Worker], row: Row
) -> None:
    first, second = start(), start()
    attempt = first.sign(row, row.begin())
    assert not isinstance(attempt, PaymentPostponed)
    first.send(row, attempt)
    assert isinstance(second.attempt(row), PaymentSettled)
    assert second.account.count_mined() == 1


def test_sending_again_is_harmless(chain: LocalChain, worker: Worker, row: Row) -> None:
    attempt = worker.sign(row, row.begin())
    assert not isinstance(attempt, PaymentPostponed)
    assert row.signed is not None
    for _ in range(3):
        sent = worker.send(row, attempt)
        assert sent.transaction_hash == row.signed.transaction_hash
        chain.mine()
    assert chain.get_balance(USDC, SELLER) == PRICE


def test_a_stuck_transfer_is_replaced(
    chain: LocalChain, clock: Clock, start: Callable[[], Worker], row: Row
) -> None:
    chain.set_automine(False)
    assert isinstance(start().attempt(row), SettlementPending)
    first = row.signed
    assert isinstance(start().attempt(row), SettlementPending)
    assert row.signed == first, "it may not have waited for long yet"
    clock.advance(POLICY.replace_after_seconds)
    assert isinstance(start().attempt(row), SettlementPending)
    second = row.signed
    assert first is not None
    assert second is not None
    assert (second.gas_nonce, second.replaces) == (first.gas_nonce, first.transaction_hash)
    old, new = read_transfer(first).fees, read_transfer(second).fees
    assert 4 * new.maximum >= 5 * old.maximum
    assert 4 * new.priority >= 5 * old.priority
    assert row.hashes == (first.transaction_hash, second.transaction_hash)
    chain.mine()
    assert start().attempt(row) == PaymentSettled(second.transaction_hash)
    assert not is_mined(chain, first)
    assert chain.get_balance(USDC, SELLER) == PRICE


def test_the_replaced_transfer_may_be_the_one_that_is_mined(
    chain: LocalChain, clock: Clock, start: Callable[[], Worker], row: Row
) -> None:
    """A replacement was written down, and its worker died: the miner has the first one."""
    chain.set_automine(False)
    start().attempt(row)
    first = row.signed
    assert first is not None
    clock.advance(POLICY.replace_after_seconds)
    start().sign(row, row.begin())
    assert row.signed != first
    chain.mine()
    assert start().attempt(row) == PaymentSettled(first.transaction_hash)


def test_the_highest_fee_is_never_exceeded(
    chain: LocalChain, gas: ChainPayer, gas_books: GasBooks, clock: Clock, row: Row
) -> None:
    chain.set_automine(False)
    for _ in range(12):
        worker = Worker(chain, gas.private_key, gas_books, clock, replace(POLICY, max_fee=4 * GWEI))
        worker.attempt(row)
        clock.advance(POLICY.replace_after_seconds)
        assert row.signed is not None
        assert read_transfer(row.signed).fees.maximum <= 4 * GWEI
    assert len(row.hashes) < 12


def test_only_the_first_in_line_is_replaced(
    chain: LocalChain, payer: ChainPayer, clock: Clock, gas_books: GasBooks, worker: Worker
) -> None:
    chain.set_automine(False)
    rows = [gas_books.add(payer.authorize(USDC, SELLER, PRICE)) for _ in range(2)]
    for _ in range(2):
        for row in reversed(rows):
            worker.attempt(row)
        clock.advance(POLICY.replace_after_seconds)
    by_nonce = sorted(rows, key=lambda row: row.signed.gas_nonce if row.signed else 0)
    assert [len(row.hashes) for row in by_nonce] == [2, 1]


def test_a_dropped_transfer_is_sent_again(chain: LocalChain, start: Callable[[], Worker], row: Row) -> None:
    chain.set_automine(False)
    start().attempt(row)
    signed = row.signed
    assert signed is not None
    chain.drop(signed.transaction_hash)
    chain.mine()
    assert not is_mined(chain, signed)
    start().attempt(row)
    chain.mine()
    assert start().attempt(row) == PaymentSettled(signed.transaction_hash)


def test_a_taken_nonce_is_signed_anew(
    chain: LocalChain, gas: ChainPayer, start: Callable[[], Worker], row: Row
) -> None:
    """Somebody uses the gas account elsewhere: the transfer can never be mined."""
    start().sign(row, row.begin())
    first = row.signed
    assert first is not None
    chain.call("anvil_impersonateAccount", gas.address)
    chain.send(ELSEWHERE, "0x", sender=gas.address)
    assert isinstance(start().attempt(row), PaymentSettled)
    assert row.signed is not None
    assert row.signed.gas_nonce == first.gas_nonce + 1
    assert row.signed.replaces is None
    assert chain.get_balance(USDC, SELLER) == PRICE


def test_a_payment_that_a_stranger_settled_leaves_no_gap(
    chain: LocalChain, payer: ChainPayer, gas_books: GasBooks, start: Callable[[], Worker], row: Row
) -> None:
    """The transfer is sent all the same, and reverts."""
    worker = start()
    attempt = worker.sign(row, row.begin())
    assert not isinstance(attempt, PaymentPostponed)
    stranger = chain.settle(USDC, row.payment)
    worker.send(row, attempt)
    assert has_reverted(chain, row.signed)
    assert worker.payments.look(row.payment, TERMS, attempt) == PaymentSettled(stranger)
    assert chain.get_balance(USDC, SELLER) == PRICE
    assert_moving(chain, payer, gas_books, start())


def test_nothing_is_signed_for_a_payment_that_a_stranger_settled(
    chain: LocalChain, worker: Worker, row: Row
) -> None:
    stranger = chain.settle(USDC, row.payment)
    assert worker.attempt(row) == PaymentSettled(stranger)
    assert row.signed is None


@pytest.mark.parametrize("fault", ["emptied", "cancelled", "expired"])
def test_a_transfer_that_must_revert_is_not_signed(
    chain: LocalChain, payer: ChainPayer, worker: Worker, row: Row, fault: str
) -> None:
    if fault == "emptied":
        empty(chain, payer)
    elif fault == "cancelled":
        payer.cancel(chain, USDC, row.payment.nonce)
    else:
        chain.advance_time(600)
    postponed = worker.sign(row, row.begin())
    assert isinstance(postponed, PaymentPostponed)
    assert postponed.reason.startswith("the token would refuse the transfer: ")
    assert row.signed is None


def test_a_payer_who_is_emptied_and_paid_again_pays_once(
    chain: LocalChain, payer: ChainPayer, start: Callable[[], Worker], row: Row
) -> None:
    """The first transfer reverts; the second has a gas nonce of its own."""
    worker = start()
    attempt = worker.sign(row, row.begin())
    assert not isinstance(attempt, PaymentPostponed)
    empty(chain, payer)
    worker.send(row, attempt)
    first = row.signed
    assert has_reverted(chain, first)
    assert isinstance(start().attempt(row), SettlementPending)
    assert row.signed == first
    chain.mint(USDC, payer.address, PRICE)
    assert isinstance(start().attempt(row), PaymentSettled)
    assert row.signed != first
    assert chain.get_balance(USDC, SELLER) == PRICE


def test_an_empty_gas_account_signs_nothing(
    chain: LocalChain, gas: ChainPayer, worker: Worker, row: Row
) -> None:
    chain.fund(gas.address, 10**12)
    postponed = worker.sign(row, row.begin())
    assert isinstance(postponed, PaymentPostponed)
    assert postponed.reason.startswith(f"the gas account {gas.address} has 0.000001 ether")
    chain.fund(gas.address)
    assert isinstance(worker.attempt(row), PaymentSettled)


def test_a_base_fee_above_the_limit_signs_nothing(
    chain: LocalChain, gas: ChainPayer, gas_books: GasBooks, clock: Clock, row: Row
) -> None:
    worker = Worker(chain, gas.private_key, gas_books, clock, replace(POLICY, max_fee=1))
    postponed = worker.sign(row, row.begin())
    assert isinstance(postponed, PaymentPostponed)
    assert "above max_fee_gwei" in postponed.reason


def test_a_transfer_that_takes_too_much_gas_is_not_signed(
    chain: LocalChain, gas: ChainPayer, gas_books: GasBooks, clock: Clock, row: Row
) -> None:
    worker = Worker(chain, gas.private_key, gas_books, clock, replace(POLICY, max_gas=30_000))
    postponed = worker.sign(row, row.begin())
    assert isinstance(postponed, PaymentPostponed)
    assert "more than max_gas" in postponed.reason


def test_a_transfer_is_not_signed_again_while_its_block_is_not_deep_enough(
    chain: LocalChain, gas: ChainPayer, gas_books: GasBooks, clock: Clock, row: Row
) -> None:
    worker = Worker(chain, gas.private_key, gas_books, clock, confirmations=3)
    for _ in range(2):
        assert isinstance(worker.attempt(row), SettlementPending)
    assert row.notes[-1] == "the transfer is in a block that is not deep enough yet"
    chain.mine(2)
    assert isinstance(worker.attempt(row), PaymentSettled)
    assert len(row.hashes) == 1


def test_a_reorganisation_is_settled_again(
    chain: LocalChain, gas: ChainPayer, payer: ChainPayer, gas_books: GasBooks, clock: Clock, row: Row
) -> None:
    worker = Worker(chain, gas.private_key, gas_books, clock, confirmations=2)
    assert isinstance(worker.attempt(row), SettlementPending)
    assert chain.get_balance(USDC, SELLER) == PRICE
    chain.reorganise(1)
    assert chain.get_balance(USDC, SELLER) == 0
    assert isinstance(worker.attempt(row), SettlementPending)
    chain.mine()
    assert isinstance(worker.attempt(row), PaymentSettled)
    assert chain.get_balance(USDC, SELLER) == PRICE
    assert len(row.hashes) == 1


def test_without_a_node_nothing_is_signed_and_sending_does_not_raise(
    chain: LocalChain, gas: ChainPayer, start: Callable[[], Worker], row: Row
) -> None:
    attempt = start().sign(row, row.begin())
    assert not isinstance(attempt, PaymentPostponed)
    chain.url = "http://127.0.0.1:9"
    worker = start()
    with pytest.raises(PaymentsUnavailable):
        worker.payments.sign(row.payment, TERMS, row.begin(), None)
    assert row.signed is not None
    sent = DirectPayments.send(worker.payments, row.payment, TERMS, attempt)
    assert sent.transaction_hash == row.signed.transaction_hash
    assert row.signed.raw not in sent.note


def test_every_node_is_told(
    chain: LocalChain, gas: ChainPayer, clock: Clock, worker: Worker, row: Row
) -> None:
    """One that is down does not hold it up."""
    worker.sign(row, row.begin())
    assert row.signed is not None
    reader = ChainReader(USDC.chain, ["http://127.0.0.1:9", chain.url], clock=clock)
    said = GasAccount(reader, KeySigner(gas.private_key), clock).send(row.signed.raw).split("; ")
    assert len(said) == 2
    assert said[1].endswith(" took it")
    chain.mine()
    assert is_mined(chain, row.signed)


def test_a_note_does_not_repeat_what_was_sent(
    proxy: RpcProxy, gas: ChainPayer, clock: Clock, worker: Worker, row: Row
) -> None:
    """The payer's signature is in it, and nodes quote what they refuse."""
    worker.sign(row, row.begin())
    assert row.signed is not None
    proxy.change["eth_sendRawTransaction"] = fail_with(-32000, f"no {row.signed.raw[:150]}")
    reader = ChainReader(USDC.chain, [proxy.url], clock=clock)
    note = GasAccount(reader, KeySigner(gas.private_key), clock).send(row.signed.raw)
    assert "error -32000: no ..." in note
    assert row.signed.raw[:40] not in note


def test_the_first_nonce_comes_from_the_chain(
    chain: LocalChain, gas: ChainPayer, worker: Worker, row: Row
) -> None:
    """The books have never seen the account, which was used before."""
    chain.call("anvil_impersonateAccount", gas.address)
    for _ in range(3):
        chain.send(ELSEWHERE, "0x", sender=gas.address)
    assert isinstance(worker.attempt(row), PaymentSettled)
    assert row.signed is not None
    assert row.signed.gas_nonce == 3


def test_another_key_signs_anew(
    chain: LocalChain, start: Callable[[], Worker], gas_books: GasBooks, clock: Clock, row: Row
) -> None:
    """The gas account was replaced while a transfer of the old one waited."""
    start().sign(row, row.begin())
    successor = ChainPayer()
    chain.fund(successor.address)
    worker = Worker(chain, successor.private_key, gas_books, clock)
    assert isinstance(worker.attempt(row), PaymentSettled)
    assert row.signed is not None
    assert row.signed.sender == successor.address.lower()


def test_the_gas_balance_tells_when_it_is_low(chain: LocalChain, gas: ChainPayer, worker: Worker) -> None:
    assert not worker.account.read_balance().is_low
    chain.fund(gas.address, POLICY.alarm_balance - 1)
    balance = worker.account.read_balance()
    assert (balance.address, balance.wei, balance.is_low) == (gas.address, POLICY.alarm_balance - 1, True)
