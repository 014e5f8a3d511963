"""The signed transfers of a gas account, of all sellers, as its upkeep sees them."""

import secrets
from dataclasses import replace

import pytest

from faregate.rules.payments import SettlementPending, SignedTransfer
from faregate.rules.records import Transaction
from faregate.service.chain.direct.upkeep import TransferStore
from faregate.service.database.attempts import AttemptSchedule
from faregate.service.database.engine import Database
from faregate.service.database.gas_transfers import SqlTransfers
from faregate.service.database.sql_store import SqlStore
from tests.service.databases import MovedClock
from tests.service.sales import open_store, submit

pytestmark = pytest.mark.every_value

GAS = "0xB0a7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7e7"
CHAIN = 84532


@pytest.fixture
def store(database: Database, clock: MovedClock) -> SqlStore:
    return open_store(database, clock, attempt_schedule=AttemptSchedule(first_retry=0.0))


@pytest.fixture
def transfers(database: Database) -> TransferStore:
    return SqlTransfers(database)


def make_transfer(gas_nonce: int, replaces: str | None = None) -> SignedTransfer:
    found = f"0x{secrets.token_hex(32)}"
    return SignedTransfer(GAS.lower(), CHAIN, gas_nonce, "0x02", found, replaces, 1_800_000_000)


def sign(store: SqlStore, made: Transaction, transfer: SignedTransfer) -> Transaction:
    """Make an attempt that signs this, and gives no result."""
    attempt = store.begin_attempt(made)
    assert attempt is not None
    assert store.record_signed(made, attempt, transfer)
    return store.postpone(made, attempt, SettlementPending(), None)


def submit_signed(store: SqlStore, gas_nonce: int) -> tuple[Transaction, SignedTransfer]:
    made, transfer = submit(store), make_transfer(gas_nonce)
    return sign(store, made, transfer), transfer


def test_they_are_listed_by_gas_nonce(store: SqlStore, transfers: TransferStore) -> None:
    signed = [submit_signed(store, number)[1] for number in range(4)]
    assert list(transfers.list_transfers(GAS, CHAIN, 0, 10)) == signed
    assert list(transfers.list_transfers(GAS.lower(), CHAIN, 2, 10)) == signed[2:]
    assert list(transfers.list_transfers(GAS, CHAIN, 1, 2)) == signed[1:3]
    assert not transfers.list_transfers(GAS, CHAIN + 1, 0, 10)
    assert not transfers.list_transfers("0x" + "11" * 20, CHAIN, 0, 10)


def test_those_of_ended_payments_are_listed(store: SqlStore, transfers: TransferStore) -> None:
    made, transfer = submit_signed(store, 0)
    store.record_settled(made, "0x" + "ab" * 32, None)
    assert list(transfers.list_transfers(GAS, CHAIN, 0, 10)) == [transfer]


def test_the_latest_of_a_gas_nonce_is_listed(store: SqlStore, transfers: TransferStore) -> None:
    made, first = submit_signed(store, 0)
    second = make_transfer(0, first.transaction_hash)
    sign(store, made, second)
    assert list(transfers.list_transfers(GAS, CHAIN, 0, 10)) == [second]


def test_the_transfer_of_an_ended_payment_is_replaced_once(store: SqlStore, transfers: TransferStore) -> None:
    made, first = submit_signed(store, 0)
    _, later = submit_signed(store, 1)
    store.record_settled(made, "0x" + "ab" * 32, None)
    second, beaten = (make_transfer(0, first.transaction_hash) for _ in range(2))
    assert transfers.replace_transfer(second)
    assert not transfers.replace_transfer(beaten)
    assert list(transfers.list_transfers(GAS, CHAIN, 0, 10)) == [second, later]


def test_the_transfer_of_an_open_payment_is_left_to_its_attempts(
    store: SqlStore, transfers: TransferStore
) -> None:
    """They keep the hash of every one, which looking at the chain needs."""
    _, first = submit_signed(store, 0)
    assert not transfers.replace_transfer(make_transfer(0, first.transaction_hash))
    assert list(transfers.list_transfers(GAS, CHAIN, 0, 10)) == [first]


def test_the_attempt_that_replaces_it_is_due_at_once(
    database: Database, clock: MovedClock, transfers: TransferStore
) -> None:
    """Others wait behind it, and its payment may be tried again in minutes only."""
    store = open_store(database, clock, attempt_schedule=AttemptSchedule(first_retry=200.0))
    made, first = submit_signed(store, 0)
    assert store.take_jobs(10) == []
    now = int(clock.move(40).timestamp())
    transfers.replace_transfer(replace(make_transfer(0, "0x" + "11" * 32), signed_at=now))
    assert store.take_jobs(10) == [], "the books hold another transfer"
    transfers.replace_transfer(replace(make_transfer(0, first.transaction_hash), signed_at=now))
    [(taken, attempt)] = store.take_jobs(10)
    assert (taken.id, attempt.signed) == (made.id, first)


def test_a_parked_payment_does_not_keep_others_waiting(
    store: SqlStore, clock: MovedClock, transfers: TransferStore
) -> None:
    made, first = submit_signed(store, 0)
    assert store.park(made, "no reason") is not None
    now = int(clock.move(40).timestamp())
    transfers.replace_transfer(replace(make_transfer(0, first.transaction_hash), signed_at=now))
    [(taken, _)] = store.take_jobs(10)
    assert (taken.id, taken.parked) == (made.id, None)


def test_an_attempt_knows_its_transfer_as_it_was_signed(store: SqlStore) -> None:
    """Compared with another form of it, each attempt would sign anew."""
    made, transfer = submit_signed(store, 0)
    attempt = store.begin_attempt(made)
    assert attempt is not None
    assert attempt.signed == transfer
    assert attempt.hashes == (transfer.transaction_hash,)


def test_a_gas_nonce_is_taken_once(store: SqlStore) -> None:
    submit_signed(store, 5)
    made = submit(store)
    attempt = store.begin_attempt(made)
    assert attempt is not None
    assert store.get_gas_nonce(CHAIN, GAS) == 6
    for taken in (4, 5):
        assert not store.record_signed(made, attempt, make_transfer(taken))
    assert store.record_signed(made, attempt, make_transfer(6))


def test_a_replacement_needs_the_transfer_that_it_replaces(store: SqlStore) -> None:
    made, first = submit_signed(store, 0)
    attempt = store.begin_attempt(made)
    assert attempt is not None
    assert not store.record_signed(made, attempt, replace(make_transfer(0), replaces="0x" + "11" * 32))
    assert store.record_signed(made, attempt, make_transfer(0, first.transaction_hash))
