"""Books and chain in both directions, on a real EVM: each planted difference is found, and none invented."""

import re
from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from decimal import Decimal

import pytest

from faregate.rules.payments import PaymentsUnavailable
from faregate.service import reconciliation
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.database.engine import Database
from faregate.service.reconciliation import Reconciliation
from faregate.system import system_clock
from tests.service.chain.test_chain_together import settle_together
from tests.service.planted import Day, open_reader
from tests.service.sales import open_store, resolve
from tests.support.chain import USDC, ChainPayer, LocalChain, payer
from tests.support.rpc_proxy import NO_ANSWER, serve_rpc_proxy

__all__ = ["payer"]
PLANTED = 200


@pytest.fixture
def day(database: Database, chain: LocalChain, payer: ChainPayer) -> Day:
    return Day(database, open_store(database), chain, payer)


@pytest.fixture
def reader(chain: LocalChain) -> Generator[ChainReader]:
    made = open_reader(chain)
    yield made
    made.close()


@pytest.mark.every_value
def test_every_planted_difference_is_found_and_none_invented(day: Day, reader: ChainReader) -> None:
    begin = system_clock()
    for number in range(PLANTED):
        day.plants[number % len(day.plants)]()
        (day.sell, day.sell_unsent, day.sell_failed)[number % 3]()
    day.sell_open()
    together = [day.submit() for _ in range(3)]
    sent = settle_together(day.chain, *(one.payment for one in together))
    for one in together:
        day.record(one, sent)
    day.chain.advance_time(60)
    received = day.chain.get_balance(USDC, resolve(day.store).terms.pay_to)
    price = resolve(day.store).terms.amount
    for since in (None, begin):
        found, result = day.reconcile(reader, since)
        assert len(day.planted) == PLANTED
        assert {(one.kind, one.transaction or one.transaction_hash) for one in found} == day.planted
        assert Counter(one.kind for one in found) == result.differences
        # All that the address ever received is explained, but for what is open.
        assert result.on_chain["USDC"] + price == received
        assert_sums_explain_each_other(result)
        assert not result.is_equal


def assert_sums_explain_each_other(result: Reconciliation) -> None:
    """What is on the chain is what was settled with the amounts of the differences, also in the last line."""
    sums = result.describe()["assets"]["USDC"]
    excess = {kind: int(amount) for kind, amount in sums["excess_atomic"].items()}
    assert int(sums["settled_atomic"]) + sum(excess.values()) == int(sums["on_chain_atomic"])
    assert set(excess) == {"missing", "charged", "unpaid", "amount", "foreign"}
    assert excess["unpaid"] < 0 < excess["missing"]
    said = str(result)
    [settled, on_chain] = re.findall(r"(?:settled|on the chain) (\d+\.\d+) USDC", said)
    signed = re.findall(r"\(([+-]\d+\.\d+) USDC\)", said.partition("differences: ")[2])
    assert len(signed) == len(excess)
    assert Decimal(settled) + sum(map(Decimal, signed)) == Decimal(on_chain)


def test_equal_books_are_called_equal(day: Day, reader: ChainReader) -> None:
    for sell in (day.sell, day.sell_failed, day.sell_unsent, day.sell_open, day.plant_foreign):
        sell()
    day.chain.advance_time(60)
    found, result = day.reconcile(reader)
    assert [one.kind for one in found] == ["foreign"]
    assert result.is_equal
    assert (result.payments, result.open) == (4, 2)
    price = resolve(day.store).terms.amount
    assert (result.authorized["USDC"], result.settled["USDC"]) == (4 * price, price)
    assert result.on_chain["USDC"] == price + 3
    assert str(result).endswith("on the chain 0.050003 USDC; differences: 1 foreign (+0.000003 USDC).")


def test_what_was_lost_is_missing_although_the_books_are_empty(day: Day, reader: ChainReader) -> None:
    """They are a copy from before the first sale. What is sold after the restore comes later."""
    day.plant_missing()
    day.chain.advance_time(60)
    assert {(one.kind, one.transaction_hash) for one in day.reconcile(reader)[0]} == day.planted
    day.sell()
    day.chain.advance_time(60)
    assert {(one.kind, one.transaction_hash) for one in day.reconcile(reader)[0]} == day.planted


def test_a_payment_that_was_created_earlier_is_no_missing_one(day: Day, reader: ChainReader) -> None:
    early = day.submit()
    day.chain.advance_time(3600)
    since = system_clock() + timedelta(seconds=1)
    day.record(early, day.chain.settle(USDC, early.payment))
    day.chain.advance_time(60)
    assert day.reconcile(reader, since)[0] == []


def test_a_payment_whose_transfer_is_before_the_begin_is_looked_up(day: Day, reader: ChainReader) -> None:
    begin = system_clock()
    day.sell()
    day.chain.advance_time(60)
    # The clock of the chain is ahead of that of the books.
    assert day.reconcile(reader, begin + timedelta(minutes=-1))[0] == []
    early = day.sell()
    day.change(early, created_at=4_000_000_000_000_000)
    day.chain.advance_time(60)
    found, result = day.reconcile(reader, begin + timedelta(days=300))
    assert (found, result.payments) == ([], 1)


def test_transfers_are_not_kept_until_the_end(
    day: Day, reader: ChainReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciliation, "_MOST_WAITING", 1)
    monkeypatch.setattr("faregate.service.chain.received_transfers.LOG_BLOCKS", 2)
    for _ in range(5):
        day.sell()
        day.chain.advance_time(10)
    day.plant_hash()
    day.chain.advance_time(60)
    found, result = day.reconcile(reader)
    assert {(one.kind, one.transaction) for one in found} == day.planted
    assert result.payments == 6


def test_a_payment_that_the_node_may_not_have_yet_is_no_difference(day: Day, reader: ChainReader) -> None:
    day.plant_unpaid()
    assert day.reconcile(reader)[0] == []
    day.chain.advance_time(60)
    assert [one.kind for one in day.reconcile(reader)[0]] == ["unpaid"]


def test_a_node_that_goes_away_makes_no_difference(day: Day, chain: LocalChain) -> None:
    day.plant_unpaid()
    day.chain.advance_time(60)
    with serve_rpc_proxy(chain.url) as proxy:
        reader = open_reader(chain, proxy.url)
        proxy.change["eth_call"] = lambda _params, _result: NO_ANSWER
        with pytest.raises(PaymentsUnavailable):
            day.reconcile(reader)
        reader.close()
