"""Direct settlement with the SQL store: whenever a process dies, books, chain and gas nonces agree."""

from typing import Any

import pytest
from sqlalchemy import select

from faregate.rules.dependencies import Dependencies
from faregate.rules.payments import PaymentVerified
from faregate.rules.records import FINAL, Transaction
from faregate.rules.settlement import settle
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct import DirectPayments, GasAccount, GasPolicy, keep_nonces_moving
from faregate.service.chain.direct.fees import GWEI
from faregate.service.chain.direct.signers import KeySigner
from faregate.service.database.attempts import AttemptSchedule
from faregate.service.database.engine import Database
from faregate.service.database.gas_transfers import SqlTransfers
from faregate.service.database.schema import attempts
from faregate.service.database.sql_store import SqlStore
from tests.service.chain.facilitated import sign_payment
from tests.service.chain.gas_books import Clock, wait_for_blocks
from tests.service.sales import open_store, resolve, succeeded
from tests.support.chain import USDC, ChainPayer, LocalChain, chain, payer
from tests.support.watched_backend import Call, Killed, count_moments, watch

__all__ = ["chain", "payer"]

LEASE = 60.0
MOST_STEPS = 30


class Shop:
    """A seller's store and a gas account. Every process that works for it begins with what is written."""

    def __init__(self, database: Database, chain: LocalChain, payer: ChainPayer) -> None:
        self.chain, self.payer = chain, payer
        self.clock = Clock()
        self.database = database
        self.store: SqlStore = open_store(
            database, self.clock, attempt_schedule=AttemptSchedule(LEASE, first_retry=0.0)
        )
        self.gas = ChainPayer()
        chain.fund(self.gas.address)

    def submit(self) -> Transaction:
        """Sell something; the seller has completed it."""
        context = resolve(self.store)
        payment = sign_payment(self.payer, context.terms)
        verified = PaymentVerified(self.payer.address, self.chain.head)
        made = self.store.authorize(context, payment, verified)
        assert made is not None
        recorded = self.store.record_outcome(made, succeeded(made))
        assert recorded is not None
        return recorded

    def start_account(self) -> GasAccount:
        reader = ChainReader(USDC.chain, [self.chain.url], clock=self.clock)
        return GasAccount(reader, KeySigner(self.gas.private_key), self.clock, GasPolicy(max_fee=100 * GWEI))

    def work(self, transaction: Transaction, dies_at: int | None = None) -> bool:
        """Make one attempt in a new process; return whether it died at this moment.

        Moments count calls to store and payments: even ones are before a call, odd ones after it.
        """
        account = self.start_account()
        reader = ChainReader(USDC.chain, [self.chain.url], clock=self.clock)
        backend = Dependencies(self.store, DirectPayments(account, reader))
        pass_moments, _ = count_moments(dies_at)

        def around(call: Call) -> Any:
            answer = pass_moments(call)
            wait_for_blocks(self.chain)
            return answer

        try:
            settle(transaction, watch(backend, around))
        except Killed:
            return True
        return False

    def keep_up(self) -> None:
        keep_nonces_moving(self.start_account(), SqlTransfers(self.database))
        wait_for_blocks(self.chain)

    def read(self, transaction: Transaction) -> Transaction:
        found = self.store.find_transaction(transaction.id)
        assert found is not None
        return found

    def finish(self, transaction: Transaction) -> Transaction:
        """Let the lease of a dead process end, and work until the payment has ended."""
        for _ in range(5):
            self.clock.advance(LEASE + 1)
            self.work(self.read(transaction))
            self.keep_up()
            if self.read(transaction).status in FINAL:
                break
        return self.read(transaction)

    def list_sent(self) -> set[str]:
        """The hashes of the gas account's transactions, by the chain."""
        blocks = [self.chain.call("eth_getBlockByNumber", hex(n), True) for n in range(self.chain.head + 1)]
        found = [each for block in blocks for each in block["transactions"]]
        return {each["hash"] for each in found if each["from"] == self.gas.address.lower()}

    def list_written(self) -> set[str]:
        with self.database.read() as connection:
            return set(connection.execute(select(attempts.c.transaction_hash)).scalars())

    def assert_in_order(self, sold: list[Transaction]) -> None:
        """Each payment was settled once, by the transfer in its receipt, and no gas nonce was left out."""
        records = [self.read(each) for each in sold]
        assert [each.status for each in records] == ["succeeded"] * len(records)
        price = records[0].context.terms.amount
        assert self.chain.get_balance(USDC, self.store.account.pay_to) == price * len(records)
        for each in records:
            assert each.settled is not None
            receipt = self.chain.get_receipt(each.settled.transaction_hash)
            assert receipt is not None
            assert receipt["status"] == "0x1"
        assert self.list_sent() <= self.list_written(), "sent before it was written down"
        used = self.start_account().count_mined()
        assert self.store.get_gas_nonce(USDC.chain, self.gas.address) == used


@pytest.fixture
def shop(database: Database, chain: LocalChain, payer: ChainPayer) -> Shop:
    return Shop(database, chain, payer)


def test_whenever_a_process_dies_the_payment_is_settled_once(shop: Shop) -> None:
    sold: list[Transaction] = []
    for moment in range(MOST_STEPS):
        sold.append(shop.submit())
        died = shop.work(sold[-1], dies_at=moment)
        shop.finish(sold[-1])
        if not died:
            break
    assert 12 < len(sold) < MOST_STEPS
    shop.assert_in_order(sold)
    assert shop.start_account().count_mined() == len(sold), "a process sent what another one had sent"


def test_a_stranger_settles_what_a_dead_process_signed(shop: Shop) -> None:
    """At each moment; the transfer reverts, and later payments do not wait for it."""
    sold: list[Transaction] = []
    for moment in range(MOST_STEPS):
        sold.append(shop.submit())
        died = shop.work(sold[-1], dies_at=moment)
        shop.chain.settle(USDC, sold[-1].payment)
        shop.finish(sold[-1])
        if not died:
            break
    sold.append(shop.submit())
    shop.work(sold[-1])
    shop.assert_in_order(sold)
