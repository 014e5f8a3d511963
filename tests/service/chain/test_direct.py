"""Direct settlement on a real chain: one transfer for each payment, and no gas nonce that is never used."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from faregate.rules.payments import (
    PaymentPostponed,
    PaymentSettled,
    PaymentsUnavailable,
    SettlementPending,
    SignedTransfer,
)
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct.backend import DirectPayments
from faregate.service.chain.direct.fees import GWEI
from faregate.service.chain.direct.gas_account import GasAccount, read_transfer
from faregate.service.chain.direct.signers import KeySigner
from tests.service.chain.direct_fixtures import DirectSettlement
from tests.service.chain.gas_books import POLICY, PRICE, SELLER, TERMS, Row, Worker
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.rpc_proxy import RpcProxy, fail_with

ELSEWHERE = "0x" + "cd" * 20


def is_mined(chain: LocalChain, transfer: SignedTransfer) -> bool:
    return chain.get_receipt(transfer.transaction_hash) is not None


def has_reverted(chain: LocalChain, transfer: SignedTransfer) -> bool:
    receipt = chain.get_receipt(transfer.transaction_hash)
    return receipt is not None and receipt["status"] == "0x0"


def empty(chain: LocalChain, payer: ChainPayer) -> None:
    chain.move(USDC, payer.address, ELSEWHERE, chain.get_balance(USDC, payer.address))


def test_it_settles(chain: LocalChain, worker: Worker, row: Row) -> None:
    seen = worker.attempt(row)
    assert seen == PaymentSettled(row.transfer.transaction_hash)
    assert chain.get_balance(USDC, SELLER) == PRICE


def test_signing_sends_nothing(chain: LocalChain, worker: Worker, row: Row) -> None:
    worker.sign(row)
    chain.mine()
    assert not is_mined(chain, row.transfer)
    assert worker.account.count_mined() == 0


def test_four_at_once_settle(direct: DirectSettlement, worker: Worker) -> None:
    rows = [direct.add() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(worker.attempt, rows))
    direct.chain.mine()
    assert all(isinstance(worker.attempt(row), PaymentSettled) for row in rows)
    assert direct.received == 4 * PRICE
    assert sorted(row.transfer.gas_nonce for row in rows) == [0, 1, 2, 3]


def test_two_workers_never_share_a_nonce(direct: DirectSettlement) -> None:
    """Both read the same next free nonce; the slower one signs again."""
    rows = [direct.add() for _ in range(2)]
    both_signed = threading.Barrier(2, timeout=20)
    waits = [True, True]

    def sign(number: int) -> None:
        def wait() -> None:
            if waits[number]:
                waits[number] = False
                both_signed.wait()

        one = direct.start()
        one.send(rows[number], one.sign(rows[number], before_record=wait))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(sign, range(2)))
    assert direct.books.conflicts == 1
    assert sorted(row.transfer.gas_nonce for row in rows) == [0, 1]
    direct.chain.mine()
    worker = direct.start()
    assert all(isinstance(worker.attempt(row), PaymentSettled) for row in rows)


def test_a_nonce_that_is_written_down_is_taken_though_nothing_was_sent(
    direct: DirectSettlement, row: Row
) -> None:
    """Its worker may be dead, or about to send."""
    direct.start().sign(row)
    other = direct.add()
    direct.start().sign(other)
    assert [row.transfer.gas_nonce, other.transfer.gas_nonce] == [0, 1]
    assert isinstance(direct.start().attempt(row), PaymentSettled)
    assert isinstance(direct.start().attempt(other), PaymentSettled)


def test_a_crash_before_sending_sends_the_same_transfer(direct: DirectSettlement, row: Row) -> None:
    direct.start().sign(row)
    signed = row.transfer
    assert direct.start().attempt(row) == PaymentSettled(signed.transaction_hash)
    assert row.hashes == (signed.transaction_hash,)
    assert direct.received == PRICE


def test_a_crash_after_sending_sends_nothing_new(direct: DirectSettlement, row: Row) -> None:
    first, second = direct.start(), direct.start()
    first.send(row, first.sign(row))
    assert isinstance(second.attempt(row), PaymentSettled)
    assert second.account.count_mined() == 1


def test_sending_again_is_harmless(chain: LocalChain, worker: Worker, row: Row) -> None:
    attempt = worker.sign(row)
    for _ in range(3):
        sent = worker.send(row, attempt)
        assert sent.transaction_hash == row.transfer.transaction_hash
        chain.mine()
    assert chain.get_balance(USDC, SELLER) == PRICE


def test_a_stuck_transfer_is_replaced(direct: DirectSettlement, row: Row) -> None:
    direct.chain.set_automine(False)
    assert isinstance(direct.start().attempt(row), SettlementPending)
    first = row.signed
    assert isinstance(direct.start().attempt(row), SettlementPending)
    assert row.signed == first, "it may not have waited for long yet"
    direct.let_it_get_stuck()
    assert isinstance(direct.start().attempt(row), SettlementPending)
    second = row.signed
    assert first is not None
    assert second is not None
    assert (second.gas_nonce, second.replaces) == (first.gas_nonce, first.transaction_hash)
    old, new = read_transfer(first).fees, read_transfer(second).fees
    assert 4 * new.maximum >= 5 * old.maximum
    assert 4 * new.priority >= 5 * old.priority
    assert row.hashes == (first.transaction_hash, second.transaction_hash)
    direct.chain.mine()
    assert direct.start().attempt(row) == PaymentSettled(second.transaction_hash)
    assert not is_mined(direct.chain, first)
    assert direct.received == PRICE


def test_the_replaced_transfer_may_be_the_one_that_is_mined(direct: DirectSettlement, row: Row) -> None:
    """A replacement was written down, and its worker died: the miner has the first one."""
    direct.chain.set_automine(False)
    direct.start().attempt(row)
    first = row.transfer
    direct.let_it_get_stuck()
    direct.start().sign(row)
    assert row.signed != first
    direct.chain.mine()
    assert direct.start().attempt(row) == PaymentSettled(first.transaction_hash)


def test_the_highest_fee_is_never_exceeded(direct: DirectSettlement, row: Row) -> None:
    direct.chain.set_automine(False)
    for _ in range(12):
        worker = direct.start(max_fee=4 * GWEI)
        worker.attempt(row)
        direct.let_it_get_stuck()
        assert read_transfer(row.transfer).fees.maximum <= 4 * GWEI
    assert len(row.hashes) < 12


def test_only_the_first_in_line_is_replaced(direct: DirectSettlement, worker: Worker) -> None:
    direct.chain.set_automine(False)
    rows = [direct.add() for _ in range(2)]
    for _ in range(2):
        for row in reversed(rows):
            worker.attempt(row)
        direct.let_it_get_stuck()
    by_nonce = sorted(rows, key=lambda row: row.transfer.gas_nonce)
    assert [len(row.hashes) for row in by_nonce] == [2, 1]


def test_a_dropped_transfer_is_sent_again(direct: DirectSettlement, row: Row) -> None:
    direct.chain.set_automine(False)
    direct.start().attempt(row)
    signed = row.transfer
    direct.chain.drop(signed.transaction_hash)
    direct.chain.mine()
    assert not is_mined(direct.chain, signed)
    direct.start().attempt(row)
    direct.chain.mine()
    assert direct.start().attempt(row) == PaymentSettled(signed.transaction_hash)


def test_a_taken_nonce_is_signed_anew(direct: DirectSettlement, row: Row) -> None:
    """Somebody uses the gas account elsewhere: the transfer can never be mined."""
    direct.start().sign(row)
    first = row.transfer
    direct.chain.call("anvil_impersonateAccount", direct.gas.address)
    direct.chain.send(ELSEWHERE, "0x", sender=direct.gas.address)
    assert isinstance(direct.start().attempt(row), PaymentSettled)
    assert row.transfer.gas_nonce == first.gas_nonce + 1
    assert row.transfer.replaces is None
    assert direct.received == PRICE


def test_a_payment_that_a_stranger_settled_leaves_no_gap(direct: DirectSettlement, row: Row) -> None:
    """The transfer is sent all the same, and reverts."""
    worker = direct.start()
    attempt = worker.sign(row)
    stranger = direct.chain.settle(USDC, row.payment)
    worker.send(row, attempt)
    assert has_reverted(direct.chain, row.transfer)
    assert worker.payments.look(row.payment, TERMS, attempt) == PaymentSettled(stranger)
    assert direct.received == PRICE
    direct.chain.mint(USDC, direct.payer.address, PRICE)
    later = direct.add()
    assert isinstance(direct.start().attempt(later), PaymentSettled)


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
    postponed = worker.try_to_sign(row)
    assert isinstance(postponed, PaymentPostponed)
    assert postponed.reason.startswith("the token would refuse the transfer: ")
    assert row.signed is None


def test_a_payer_who_is_emptied_and_paid_again_pays_once(direct: DirectSettlement, row: Row) -> None:
    """The first transfer reverts; the second has a gas nonce of its own."""
    worker = direct.start()
    attempt = worker.sign(row)
    empty(direct.chain, direct.payer)
    worker.send(row, attempt)
    first = row.transfer
    assert has_reverted(direct.chain, first)
    assert isinstance(direct.start().attempt(row), SettlementPending)
    assert row.signed == first
    direct.chain.mint(USDC, direct.payer.address, PRICE)
    assert isinstance(direct.start().attempt(row), PaymentSettled)
    assert row.signed != first
    assert direct.received == PRICE


def test_an_empty_gas_account_signs_nothing(
    chain: LocalChain, gas: ChainPayer, worker: Worker, row: Row
) -> None:
    chain.fund(gas.address, 10**12)
    postponed = worker.try_to_sign(row)
    assert isinstance(postponed, PaymentPostponed)
    assert postponed.reason.startswith(f"the gas account {gas.address} has 0.000001 ether")
    chain.fund(gas.address)
    assert isinstance(worker.attempt(row), PaymentSettled)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [({"max_fee": 1}, "above max_fee_gwei"), ({"max_gas": 30_000}, "more than max_gas")],
    ids=["base fee", "gas"],
)
def test_a_transfer_above_a_limit_is_not_signed(
    direct: DirectSettlement, row: Row, policy: dict[str, Any], reason: str
) -> None:
    postponed = direct.start(**policy).try_to_sign(row)
    assert isinstance(postponed, PaymentPostponed)
    assert reason in postponed.reason


def test_a_transfer_is_not_signed_again_while_its_block_is_not_deep_enough(
    direct: DirectSettlement, row: Row
) -> None:
    worker = direct.start(confirmations=3)
    for _ in range(2):
        assert isinstance(worker.attempt(row), SettlementPending)
    assert row.notes[-1] == "the transfer is in a block that is not deep enough yet"
    direct.chain.mine(2)
    assert isinstance(worker.attempt(row), PaymentSettled)
    assert len(row.hashes) == 1


def test_a_reorganisation_is_settled_again(direct: DirectSettlement, row: Row) -> None:
    worker = direct.start(confirmations=2)
    assert isinstance(worker.attempt(row), SettlementPending)
    assert direct.received == PRICE
    direct.chain.reorganise(1)
    assert direct.received == 0
    assert isinstance(worker.attempt(row), SettlementPending)
    direct.chain.mine()
    assert isinstance(worker.attempt(row), PaymentSettled)
    assert direct.received == PRICE
    assert len(row.hashes) == 1


def test_without_a_node_nothing_is_signed_and_sending_does_not_raise(
    direct: DirectSettlement, row: Row
) -> None:
    attempt = direct.start().sign(row)
    assert not isinstance(attempt, PaymentPostponed)
    direct.chain.url = "http://127.0.0.1:9"
    worker = direct.start()
    with pytest.raises(PaymentsUnavailable):
        worker.payments.sign(row.payment, TERMS, row.begin(), None)
    sent = DirectPayments.send(worker.payments, row.payment, TERMS, attempt)
    assert sent.transaction_hash == row.transfer.transaction_hash
    assert row.transfer.raw not in sent.note


def test_a_transfer_is_sent_to_every_node(direct: DirectSettlement, worker: Worker, row: Row) -> None:
    """One that is down does not hold it up."""
    worker.sign(row)
    reader = ChainReader(USDC.chain, ["http://127.0.0.1:9", direct.chain.url], clock=direct.clock)
    said = (
        GasAccount(reader, KeySigner(direct.gas.private_key), direct.clock).send(row.transfer.raw).split("; ")
    )
    assert len(said) == 2
    assert said[1].endswith(" took it")
    direct.chain.mine()
    assert is_mined(direct.chain, row.transfer)


def test_a_note_does_not_repeat_what_was_sent(
    direct: DirectSettlement, proxy: RpcProxy, worker: Worker, row: Row
) -> None:
    """The payer's signature is in it, and nodes quote what they refuse."""
    worker.sign(row)
    proxy.change["eth_sendRawTransaction"] = fail_with(-32000, f"no {row.transfer.raw[:150]}")
    reader = ChainReader(USDC.chain, [proxy.url], clock=direct.clock)
    note = GasAccount(reader, KeySigner(direct.gas.private_key), direct.clock).send(row.transfer.raw)
    assert "error -32000: no ..." in note
    assert row.transfer.raw[:40] not in note


def test_the_first_nonce_comes_from_the_chain(
    chain: LocalChain, gas: ChainPayer, worker: Worker, row: Row
) -> None:
    """The books have never seen the account, which was used before."""
    chain.call("anvil_impersonateAccount", gas.address)
    for _ in range(3):
        chain.send(ELSEWHERE, "0x", sender=gas.address)
    assert isinstance(worker.attempt(row), PaymentSettled)
    assert row.transfer.gas_nonce == 3


def test_another_key_signs_anew(direct: DirectSettlement, row: Row) -> None:
    """The gas account was replaced while a transfer of the old one waited."""
    direct.start().sign(row)
    successor = ChainPayer()
    direct.chain.fund(successor.address)
    direct.gas = successor
    assert isinstance(direct.start().attempt(row), PaymentSettled)
    assert row.transfer.sender == successor.address.lower()


def test_the_gas_balance_tells_when_it_is_low(chain: LocalChain, gas: ChainPayer, worker: Worker) -> None:
    assert not worker.account.read_balance().is_low
    chain.fund(gas.address, POLICY.alarm_balance - 1)
    balance = worker.account.read_balance()
    assert (balance.address, balance.wei, balance.is_low) == (gas.address, POLICY.alarm_balance - 1, True)
