"""Payments that succeeded and came loose in a reorganisation, on a real EVM: sent again once, while valid."""

from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from typing import Any

import pytest
from examples.chain.facilitator import GAS_KEYS

from faregate.rules.dependencies import Dependencies
from faregate.rules.payments import PaymentSent
from faregate.rules.records import Transaction
from faregate.rules.settlement import settle
from faregate.service import runtime
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct import DirectPayments, GasAccount, GasPolicy
from faregate.service.chain.direct.fees import GWEI
from faregate.service.chain.direct.signers import KeySigner
from faregate.service.database import reorg_records
from faregate.service.database.engine import Database
from faregate.service.environment_payments import EnvironmentPayments
from faregate.service.payment_chain import PaymentChain
from faregate.service.reorg_watch import ReorgWatch
from faregate.service.settings import Settings
from faregate.system import system_clock
from faregate.x402.models import SignedPayment
from tests.service.planted import Day, open_reader
from tests.service.sales import open_store, resolve
from tests.support.chain import USDC, ChainPayer, LocalChain, payer
from tests.support.rpc_proxy import serve_rpc_proxy
from tests.support.threads import run_in_threads
from tests.support.waiting import eventually

__all__ = ["payer"]


class Clock:
    """The present, and what a test adds to it."""

    ahead = timedelta()

    def __call__(self) -> datetime:
        return system_clock() + self.ahead


class Facilitator:
    """A payments backend that settles as a stranger does, in a block of its own."""

    def __init__(self, chain: LocalChain, reader: ChainReader) -> None:
        self._chain, self.look = chain, reader.look
        self.sent: list[str] = []

    def get_gas_account(self, terms: object) -> None: ...

    def sign(self, *_: object) -> None: ...

    def send(self, payment: SignedPayment, terms: object, attempt: object) -> PaymentSent:
        self.sent.append(self._chain.settle(USDC, payment))
        return PaymentSent(None, "200")


class Watched:
    """A day whose payments are watched."""

    def __init__(self, day: Day, payments: Any, reader: ChainReader, clock: Clock) -> None:
        self.day, self.payments, self.clock = day, payments, clock
        chain = PaymentChain(EnvironmentPayments("test", payments, reader), [day.store])
        self.watch = ReorgWatch(day.database, day.store.stamps, chain, lambda _: self.backend)

    @property
    def backend(self) -> Dependencies:
        return Dependencies(self.day.store, self.payments)

    def sell(self) -> Transaction:
        """A payment that this backend has settled."""
        sold = settle(self.day.submit(), self.backend)
        assert sold.status == "succeeded"
        return sold

    def lose(self, seconds: int = 20) -> None:
        """Replace the latest block, and let time pass on the chain."""
        self.day.chain.reorganise(1)
        self.day.chain.advance_time(seconds)

    def turn(self) -> None:
        self.watch.check()
        self.watch.send_again()

    def turn_until_received(self, count: int) -> None:
        self._turn_until(lambda: self.received == count)

    def turn_until_settled(self, sold: Transaction) -> None:
        self.wait()
        self._turn_until(lambda: self.get_state(sold) == "settled")

    def _turn_until(self, is_reached: Callable[[], bool]) -> None:
        """Let attempts follow each other: one that the chain answers too late proves nothing."""

        def turn() -> bool:
            self.turn()
            if is_reached():
                return True
            self.wait()
            return False

        assert eventually(turn)

    def wait(self, seconds: float = 120) -> None:
        self.clock.ahead += timedelta(seconds=seconds)

    def get_state(self, sold: Transaction) -> str | None:
        found = reorg_records.find_loose(self.day.database, self.day.store.account.id, sold.id)
        return None if found is None else found.state

    @property
    def received(self) -> int:
        terms = resolve(self.day.store).terms
        return self.day.chain.get_balance(USDC, terms.pay_to) // terms.amount


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(chain: LocalChain, clock: Clock) -> Generator[ChainReader]:
    made = ChainReader(84532, [chain.url], clock=clock)
    yield made
    made.close()


@pytest.fixture
def watched(
    database: Database, chain: LocalChain, payer: ChainPayer, reader: ChainReader, clock: Clock
) -> Watched:
    day = Day(database, open_store(database, clock), chain, payer)
    return Watched(day, Facilitator(chain, reader), reader, clock)


@pytest.mark.every_value
def test_a_payment_that_came_loose_is_sent_again_once(watched: Watched, reader: ChainReader) -> None:
    sold, other = watched.sell(), watched.sell()
    watched.day.chain.mine(2)
    loose = watched.sell()
    watched.lose()
    assert watched.received == 2
    watched.turn()
    assert (watched.received, len(watched.payments.sent)) == (3, 4)
    for _ in range(3):
        watched.wait()
        watched.turn()
    watched.day.chain.advance_time(20)
    watched.wait()
    watched.turn()
    assert (watched.received, len(watched.payments.sent)) == (3, 4)
    assert [watched.get_state(one) for one in (sold, other, loose)] == [None, None, "settled"]
    # Its end was told: the documents stay as they are. A comparison knows the second transfer.
    again = watched.day.store.find_transaction(loose.id)
    assert again is not None
    assert (again.status, again.settled) == ("succeeded", loose.settled)
    assert watched.day.reconcile(reader)[0] == []


def test_one_that_is_in_a_block_again_is_not_sent(watched: Watched) -> None:
    sold = watched.sell()
    watched.day.chain.reorganise(1)
    watched.day.chain.settle(USDC, sold.payment)
    watched.day.chain.advance_time(20)
    watched.turn()
    assert (watched.received, len(watched.payments.sent)) == (1, 1)
    assert watched.get_state(sold) in ("settled", None)


def test_one_whose_authorization_has_expired_is_lost(watched: Watched, reader: ChainReader) -> None:
    sold = watched.sell()
    watched.lose(400)
    watched.wait(400)
    watched.turn()
    assert watched.get_state(sold) == "lost"
    assert (watched.received, len(watched.payments.sent)) == (0, 1)
    [difference] = watched.day.reconcile(reader)[0]
    assert (difference.kind, difference.transaction) == ("unpaid", sold.id)


def test_one_that_expires_while_it_is_loose_is_not_sent_any_more(watched: Watched) -> None:
    sold = watched.sell()
    watched.lose()
    watched.watch.check()
    watched.wait(400)
    watched.watch.send_again()
    assert (watched.get_state(sold), len(watched.payments.sent)) == ("open", 1)
    watched.day.chain.advance_time(400)
    watched.wait(400)
    watched.watch.send_again()
    assert (watched.get_state(sold), len(watched.payments.sent)) == ("lost", 1)


def test_two_workers_send_it_once(watched: Watched) -> None:
    for _ in range(3):
        watched.sell()
        watched.lose()
    run_in_threads(*[watched.turn] * 3)
    assert (watched.received, len(watched.payments.sent)) == (3, 6)


@pytest.mark.every_value
def test_one_worker_at_a_time_has_it(watched: Watched) -> None:
    sold = watched.sell()
    watched.lose()
    watched.watch.check()
    account, now = watched.day.store.account.id, watched.day.store.stamps.read_clock()
    leases = [reorg_records.lease(watched.day.database, account, sold.id, now, now + 60) for _ in range(2)]
    assert leases == [True, False]
    assert reorg_records.lease(watched.day.database, account, sold.id, now + 60, now + 120)
    reorg_records.end(watched.day.database, account, sold.id, now, None)
    assert not reorg_records.lease(watched.day.database, account, sold.id, now + 120, now + 180)


def test_one_that_was_used_and_is_not_proven_is_not_sent(watched: Watched, clock: Clock) -> None:
    sold = watched.sell()
    watched.lose()
    watched.watch.check()
    watched.day.chain.settle(USDC, sold.payment)
    slow = ChainReader(84532, [watched.day.chain.url], clock=clock, confirmations=9)
    other = Watched(watched.day, Facilitator(watched.day.chain, slow), slow, clock)
    other.watch.send_again()
    slow.close()
    assert (watched.get_state(sold), other.payments.sent) == ("open", [])


def test_a_node_that_is_behind_makes_nothing_loose(watched: Watched, chain: LocalChain) -> None:
    old = chain.call("eth_getBlockByNumber", "latest", False)
    sold = watched.sell()
    with serve_rpc_proxy(chain.url) as proxy:
        reader = open_reader(chain, proxy.url)
        proxy.change["eth_getBlockByNumber"] = lambda _params, _result: old
        proxy.change["eth_getLogs"] = lambda _params, _result: []
        proxy.change["eth_getTransactionReceipt"] = lambda _params, _result: None
        proxy.change["eth_call"] = lambda _params, _result: "0x" + "00" * 32
        Watched(watched.day, Facilitator(chain, reader), reader, watched.clock).turn()
        reader.close()
    assert watched.get_state(sold) is None
    assert len(watched.payments.sent) == 1


def test_what_is_not_safe_waits(watched: Watched) -> None:
    """It is read again until its block is safe, and an operator sees since when."""
    database = watched.day.database
    sold = watched.sell()
    watched.wait()
    watched.turn()
    found = reorg_records.summarize_reorgs(database)
    assert sold.settled is not None
    assert found.unchecked_since == sold.settled.at
    watched.day.chain.mine(2)
    watched.turn()
    assert reorg_records.summarize_reorgs(database) == reorg_records.ReorgSummary(0, 0, 0, None)


def test_a_payment_that_is_stamped_late_is_checked(watched: Watched) -> None:
    """The clock of another process is behind."""
    watched.sell()
    watched.day.chain.mine(2)
    watched.turn()
    late = watched.sell()
    assert late.settled is not None
    at = late.settled.at - timedelta(seconds=30)
    watched.day.change(late, finished_at=int(at.timestamp() * 1_000_000))
    watched.lose()
    watched.turn()
    assert watched.get_state(late) == "open"


def test_a_process_with_workers_watches(
    url: str, chain: LocalChain, payer: ChainPayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_REORG_SECONDS", 0.1)
    monkeypatch.setattr(runtime.Runtime, "_keep_up", lambda _: None)
    monkeypatch.setenv("GAS", GAS_KEYS[1])
    settings = Settings(database=url, payments="direct", rpc_test=(chain.url,), gas_key="env:GAS", workers=1)
    with runtime.open_runtime(settings) as process:
        day = Day(process.storage.database, open_store(process.storage.database), chain, payer)
        chain.mine(2)
        backend = process.accounts.build_dependencies(day.store)
        sold = settle(day.submit(), backend)
        assert sold.status == "succeeded"
        chain.reorganise(1)
        chain.advance_time(20)
        process.begin()
        try:
            shown = b'faregate_service_loose_payments{state="open"} 1.0'
            assert eventually(lambda: shown in process.metrics.render())
            assert eventually(lambda: chain.get_balance(USDC, sold.context.terms.pay_to) > 0)
        finally:
            process.end()


# With a gas account of the service's own


@pytest.fixture
def direct(
    database: Database, chain: LocalChain, payer: ChainPayer, reader: ChainReader, clock: Clock
) -> Watched:
    gas = ChainPayer()
    chain.fund(gas.address)
    account = GasAccount(reader, KeySigner(gas.private_key), clock, GasPolicy(max_fee=100 * GWEI))
    day = Day(database, open_store(database, clock), chain, payer)
    return Watched(day, DirectPayments(account, reader), reader, clock)


def test_a_signed_transfer_is_sent_again(direct: Watched) -> None:
    sold = direct.sell()
    direct.lose()
    direct.turn_until_received(1)
    direct.day.chain.advance_time(20)
    direct.turn_until_settled(sold)
    # A busy machine may raise its fee in between, which changes its hash. Its number stays.
    used = direct.day.chain.call("eth_getTransactionCount", direct.payments.account.address, "latest")
    assert used == "0x1"


def test_a_transfer_whose_gas_nonce_was_used_is_signed_anew(direct: Watched) -> None:
    sold = direct.sell()
    direct.day.chain.reorganise(1)
    address = direct.payments.account.address
    direct.day.chain.call("anvil_impersonateAccount", address)
    direct.day.chain.send(USDC.address, "0x", sender=address)
    direct.day.chain.advance_time(20)
    direct.turn_until_received(1)
    direct.day.chain.advance_time(20)
    direct.turn_until_settled(sold)
    found = reorg_records.find_loose(direct.day.database, direct.day.store.account.id, sold.id)
    assert found is not None
    assert sold.settled is not None
    assert found.transaction_hash != sold.settled.transaction_hash
