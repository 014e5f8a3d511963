"""Refunds as records, on a real EVM: what is one, what is none, and what the comparison says of them."""

import csv
import io
import json
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
from examples.chain.facilitator import GAS_KEYS

from faregate.errors import ConfigurationError
from faregate.rules.records import Transaction
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.database.accounts import list_accounts
from faregate.service.database.engine import Database
from faregate.service.database.payment_rows import find_payment_by_id
from faregate.service.database.refunds import Refund, list_refunds, list_refunds_of, remove_refund
from faregate.service.database.reports import export_transactions
from faregate.service.refunds import RefundRecorder, RefundRequest
from tests.service.chain.test_chain_together import settle_together
from tests.service.command import call
from tests.service.planted import Day, open_reader
from tests.service.sales import authorize, failed, open_store, resolve
from tests.service.test_concurrency import run_at_once
from tests.service.test_shared_funds import open_stores
from tests.support.chain import EURC, USDC, ChainPayer, LocalChain, payer

__all__ = ["payer"]
NOW = 1_800_000_000_000_000
ELSEWHERE = "0x" + "57" * 20


@pytest.fixture
def day(database: Database, chain: LocalChain, payer: ChainPayer) -> Day:
    return Day(database, open_store(database), chain, payer)


@pytest.fixture
def reader(chain: LocalChain) -> Generator[ChainReader]:
    made = open_reader(chain)
    yield made
    made.close()


def get_price(day: Day) -> int:
    return resolve(day.store).terms.amount


def pay_back(day: Day, amount: int | None = None, *, sender: str | None = None) -> str:
    """Move money to the payer, by default from the seller's address; return the transaction's hash."""
    sender = sender or day.store.account.pay_to
    sent = day.chain.move(USDC, sender, day.payer.address, get_price(day) if amount is None else amount)
    day.chain.advance_time(60)
    return sent


def record(
    day: Day,
    reader: ChainReader,
    sold: Transaction,
    sent: str,
    sender: str | None = None,
    position: int | None = None,
) -> Refund:
    with day.database.read() as connection:
        accounts = list_accounts(connection)
    payment = find_payment_by_id(day.database, day.store.account.id, sold.id)
    assert payment is not None
    recorder = RefundRecorder(day.database, day.open_chain(reader), accounts)
    return recorder.record(RefundRequest(payment, sent, sender, position), NOW)


@pytest.mark.every_value
def test_a_transfer_back_to_the_payer_is_recorded(day: Day, reader: ChainReader) -> None:
    sold = day.sell()
    price = get_price(day)
    first, second = pay_back(day, price // 4), pay_back(day, price - price // 4)
    made = record(day, reader, sold, first)
    assert (made.transaction, made.amount, made.position) == (sold.id, price // 4, 1)
    assert (made.sender, made.payer) == (day.store.account.pay_to.lower(), day.payer.address.lower())
    record(day, reader, sold, second)
    assert [one.number for one in list_refunds_of(day.database, day.store.account.id, sold.id)] == [1, 2]
    [row] = export_transactions(day.database, day.store.account.id)
    assert (row.status, row.amount_atomic, row.refunded_atomic) == ("succeeded", price, price)


@pytest.mark.every_value
def test_no_more_is_refunded_than_was_received(day: Day, reader: ChainReader) -> None:
    sold = day.sell()
    day.sell()
    day.sell()
    price = get_price(day)
    record(day, reader, sold, pay_back(day, price - 1))
    for amount in (2, price):
        with pytest.raises(ConfigurationError, match=f"more than what can be refunded of {sold.id}: 1 of"):
            record(day, reader, sold, pay_back(day, amount))
    record(day, reader, sold, pay_back(day, 1))


@pytest.mark.every_value
def test_a_transfer_is_a_refund_of_one_payment(day: Day, reader: ChainReader) -> None:
    first, second = day.sell(), day.sell()
    sent = pay_back(day)
    record(day, reader, first, sent)
    for sold in (first, second):
        with pytest.raises(ConfigurationError, match=f"recorded as a refund of {first.id} already"):
            record(day, reader, sold, sent.upper().replace("0X", "0x").lower())
    # Until it turns out that it was one of the other.
    assert remove_refund(day.database, day.store.account.id, first.id, sent, NOW)
    assert not remove_refund(day.database, day.store.account.id, first.id, sent, NOW)
    record(day, reader, second, sent)
    assert [one.is_kept for one in list_refunds(day.database, [day.store.account.id])] == [False, True]
    # What was removed leaves room for the true one.
    assert record(day, reader, first, pay_back(day)).number == 2


@pytest.mark.every_value
def test_operators_at_once_refund_a_payment_once(day: Day, reader: ChainReader) -> None:
    sold = day.sell()
    day.sell()
    sent = [pay_back(day), pay_back(day)]
    failures: list[str] = []

    def try_to_record(one: str) -> None:
        try:
            record(day, reader, sold, one)
        except ConfigurationError as error:
            failures.append(str(error))

    run_at_once(*(partial(try_to_record, one) for one in (*sent, *sent)))
    assert len(failures) == 3
    assert len(list_refunds(day.database, [day.store.account.id])) == 1


def test_two_sellers_of_one_address_do_not_record_one_transfer(
    database: Database, chain: LocalChain, payer: ChainPayer, reader: ChainReader
) -> None:
    first, second = (Day(database, store, chain, payer) for store in open_stores(database)[:2])
    sold, other = first.sell(), second.sell()
    sent = pay_back(first)
    record(first, reader, sold, sent)
    with pytest.raises(ConfigurationError, match=sold.id):
        record(second, reader, other, sent)


def test_what_is_no_refund(day: Day, reader: ChainReader) -> None:
    early = pay_back_before_it_was_earned(day)
    sold = day.sell()
    unsent = day.authorize()
    pay_to = day.store.account.pay_to

    def refuse(sent: str, words: str, of: Transaction = sold, sender: str | None = None) -> None:
        with pytest.raises(ConfigurationError, match=words):
            record(day, reader, of, sent, sender)

    refuse("0x" + "00" * 32, "is in no block")
    refuse(early, "is older than")
    day.chain.mint(USDC, ELSEWHERE, 100_000)
    refuse(pay_back(day, sender=ELSEWHERE), "moves no USDC from .* name the address that sent it with --from")
    refuse(day.chain.move(USDC, ELSEWHERE, pay_to, 1), "moves no USDC from")
    day.chain.mint(EURC, pay_to, 100)
    refuse(day.chain.move(EURC, pay_to, day.payer.address, 100), "moves no USDC from")
    refuse(day.chain.move(USDC, pay_to, ELSEWHERE, 1), "moves no USDC from")
    refuse(pay_back(day, 1), "is authorized, and the chain does not prove that it settled", unsent)
    simulated = authorize(open_store(day.database, is_simulated=True))
    day.change(simulated, from_block=None)
    refuse(early, "is simulated", simulated)
    assert list_refunds(day.database, [day.store.account.id]) == []


def pay_back_before_it_was_earned(day: Day) -> str:
    day.chain.mint(USDC, day.store.account.pay_to, 100_000)
    return pay_back(day)


def test_a_transfer_that_can_still_be_replaced_waits(day: Day, reader: ChainReader) -> None:
    sold = day.sell()
    day.chain.advance_time(60)
    sent = day.chain.move(USDC, day.store.account.pay_to, day.payer.address, 1)
    with pytest.raises(ConfigurationError, match="may still be replaced"):
        record(day, reader, sold, sent)
    day.chain.mine(100)
    record(day, reader, sold, sent)


def test_a_refund_from_another_address_is_named(day: Day, reader: ChainReader) -> None:
    sold = day.sell()
    day.chain.mint(USDC, ELSEWHERE, 100_000)
    sent = pay_back(day, sender=ELSEWHERE)
    assert record(day, reader, sold, sent, ELSEWHERE.upper().replace("0X", "0x")).sender == ELSEWHERE


def test_the_address_of_another_seller_sends_no_refund_of_this_one(
    database: Database, chain: LocalChain, payer: ChainPayer, reader: ChainReader
) -> None:
    store, other = open_stores(database)[:2]
    day = Day(database, store, chain, payer)
    sold = day.sell()
    with database.write() as connection:
        connection.exec_driver_sql(
            f"UPDATE accounts SET pay_to = '{ELSEWHERE}' WHERE id = {other.account.id}"
        )
    chain.mint(USDC, ELSEWHERE, 100_000)
    sent = pay_back(day, sender=ELSEWHERE)
    with pytest.raises(ConfigurationError, match=r"--from .* is the address of"):
        record(day, reader, sold, sent, ELSEWHERE)


def test_a_payment_is_no_refund(day: Day, reader: ChainReader) -> None:
    """The seller buys something of the payer, who sells in the same database."""
    buyer = ChainPayer()
    with day.database.write() as connection:
        connection.exec_driver_sql(f"UPDATE accounts SET pay_to = '{buyer.address}'")
        day.store.account = list_accounts(connection)[0]
    sold = day.sell()
    day.chain.mint(USDC, buyer.address, 100_000)
    bought = Day(day.database, day.store, day.chain, buyer)
    payment = buyer.authorize(USDC, day.payer.address, get_price(day))
    made = bought.submit()
    bought.change(made, nonce=payment.nonce)
    sent = day.chain.settle(USDC, payment)
    day.chain.advance_time(60)
    with pytest.raises(ConfigurationError, match=f"is the payment {made.id}, and no refund"):
        record(day, reader, sold, sent)


def test_several_transfers_in_one_transaction(day: Day, reader: ChainReader) -> None:
    """A batch pays several payments back; each of its transfers is chosen by its place."""
    first, second = day.sell(), day.sell()
    price, wallet = get_price(day), ChainPayer()
    day.chain.mint(USDC, wallet.address, 100_000)
    parts = [wallet.authorize(USDC, day.payer.address, amount) for amount in (price, price - 1)]
    sent = settle_together(day.chain, *parts)
    day.chain.advance_time(60)
    with pytest.raises(ConfigurationError, match=rf"choose one with --transfer: 1 \({price}\), 2"):
        record(day, reader, first, sent, wallet.address)
    assert record(day, reader, first, sent, wallet.address, 2).amount == price - 1
    assert record(day, reader, second, sent, wallet.address, 1).amount == price
    with pytest.raises(ConfigurationError, match=r"--transfer 3 .* no USDC .* use --transfer 1 or 2\."):
        record(day, reader, second, sent, wallet.address, 3)


# The comparison


@pytest.mark.every_value
def test_a_recorded_refund_is_no_difference(day: Day, reader: ChainReader) -> None:
    sold = day.sell()
    record(day, reader, sold, pay_back(day))
    found, result = day.reconcile(reader)
    assert (found, result.is_equal) == ([], True)
    price = get_price(day)
    assert (result.settled["USDC"], result.refunded["USDC"], result.on_chain["USDC"]) == (price,) * 3
    assert "settled 0.05 USDC; refunded 0.05 USDC; on the chain 0.05 USDC; no differences" in str(result)
    assert result.describe()["assets"]["USDC"]["refunded_atomic"] == str(price)


@pytest.mark.every_value
def test_a_refund_that_left_the_chain_is_named(day: Day, reader: ChainReader) -> None:
    sold, other = day.sell(), day.sell()
    record(day, reader, sold, pay_back(day))
    sent = day.chain.move(USDC, day.store.account.pay_to, day.payer.address, 7)
    day.chain.mine(2)
    lost = record(day, reader, other, sent)
    day.chain.reorganise(3)
    day.chain.advance_time(60)
    found, result = day.reconcile(reader)
    assert [(one.kind, one.transaction, one.transaction_hash) for one in found] == [
        ("refund", other.id, lost.transaction_hash)
    ]
    assert not result.is_equal
    assert result.describe()["differences"]["refund"] == 1
    assert remove_refund(day.database, day.store.account.id, other.id, sent, NOW)
    assert day.reconcile(reader)[1].is_equal


def test_a_payer_who_is_a_seller_gets_a_refund(
    database: Database, chain: LocalChain, payer: ChainPayer, reader: ChainReader
) -> None:
    """What it receives is no foreign transfer."""
    store, other = open_stores(database)[:2]
    with database.write() as connection:
        connection.exec_driver_sql(
            f"UPDATE accounts SET pay_to = '{payer.address}' WHERE id = {other.account.id}"
        )
        other.account = next(one for one in list_accounts(connection) if one.id == other.account.id)
    day = Day(database, store, chain, payer)
    day.others = [other]
    sold = day.sell()
    sent = pay_back(day)
    assert sent in [one.transaction_hash for one in day.reconcile(reader)[0]]
    record(day, reader, sold, sent)
    assert sent not in [one.transaction_hash for one in day.reconcile(reader)[0]]


def test_what_was_charged_and_refunded_is_no_difference(day: Day, reader: ChainReader) -> None:
    """Its seller had reported a failure, and a facilitator settled it all the same."""
    charged = day.authorize()
    day.store.record_outcome(charged, failed(charged))
    day.chain.settle(USDC, charged.payment)
    price = get_price(day)
    record(day, reader, charged, pay_back(day, price - 1))
    [difference] = day.reconcile(reader)[0]
    assert (difference.kind, "0.049999 USDC refunded" in difference.chain) == ("charged", True)
    record(day, reader, charged, pay_back(day, 1))
    found, result = day.reconcile(reader)
    assert (found, result.is_equal) == ([], True)
    assert (result.settled["USDC"], result.refunded["USDC"], result.on_chain["USDC"]) == (0, price, price)


def test_work_that_was_cut_off_is_charged_until_it_is_refunded(day: Day, reader: ChainReader) -> None:
    """Somebody else had settled its payment, or the books are an older copy."""
    charged = day.authorize()
    settled_by = day.chain.settle(USDC, charged.payment)
    ended = day.store.record_settled(charged, settled_by, None)
    day.store.record_outcome(ended, failed(charged))
    [difference], result = day.reconcile(reader)
    price = get_price(day)
    assert (difference.kind, difference.excess, result.is_equal) == ("charged", 0, False)
    assert (result.settled["USDC"], result.on_chain["USDC"]) == (price, price)
    record(day, reader, charged, pay_back(day, price))
    found, result = day.reconcile(reader)
    assert (found, result.is_equal) == ([], True)
    assert (result.settled["USDC"], result.refunded["USDC"], result.on_chain["USDC"]) == (price, price, price)


# Commands


def test_commands(tmp_path: Path, chain: LocalChain, payer: ChainPayer, reader: ChainReader) -> None:
    url = {"FAREGATE_SERVICE_DATABASE": "sqlite:///service.db", "GAS": GAS_KEYS[0]}
    call(tmp_path, "init", **url)
    database = Database(f"sqlite:///{tmp_path / 'service.db'}")
    day = Day(database, open_store(database), chain, payer)
    sold = day.sell()
    sent = pay_back(day)
    words = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    for value, error in (("0x12", "--hash must be"), (sent, "")):
        told = call(tmp_path, "refund", "record", sold.id, "--hash", value, *words, **url)
        assert (told.returncode == 0, error in told.stderr) == (not error, True)
    assert told.stdout.startswith(f"{sold.id}: 0.05 USDC to {payer.address.lower()} by {sent}, recorded ")
    again = call(tmp_path, "refund", "record", sold.id, "--hash", sent, "--from", "0x1", *words, **url)
    assert (again.returncode, "--from 0x1: " in again.stderr) == (1, True)
    without = call(tmp_path, "refund", "record", sold.id, "--hash", sent, **url)
    assert "set payments and rpc_test" in without.stderr
    [listed] = json.loads(call(tmp_path, "refund", "list", "--json", **url).stdout)["refunds"]
    assert (listed["transaction"], listed["amount_atomic"]) == (sold.id, str(get_price(day)))
    assert sent in call(tmp_path, "refund", "list", **url).stdout
    shown = json.loads(call(tmp_path, "payment", "show", sold.id, "--json", **url).stdout)
    assert (shown["refunded_atomic"], shown["refunds"]) == (str(get_price(day)), [listed])
    text = call(tmp_path, "payment", "show", sold.id, **url).stdout
    assert f"refund           transaction {sold.id}" in text
    [row] = csv.DictReader(io.StringIO(call(tmp_path, "export", **url).stdout))
    assert row["refunded_atomic"] == str(get_price(day))
    compared = call(tmp_path, "reconcile", *words, **url)
    assert (compared.returncode, "refunded 0.05 USDC" in compared.stdout) == (0, True)
    removed = call(tmp_path, "refund", "remove", sold.id, "--hash", sent, **url)
    assert removed.stdout.startswith("removed: ")
    assert ", removed " in call(tmp_path, "refund", "list", **url).stdout
    database.close()
