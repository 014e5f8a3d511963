"""A payer and its first transaction are written together: no list has one without the other."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from faregate.rules.http import ParsedListQuery
from faregate.rules.payments import PaymentVerified
from faregate.rules.records import PayerView
from faregate.service.database.engine import Database, DatabaseError
from faregate.service.database.schema import payers, transactions
from faregate.service.database.sql_store import SqlStore
from tests.service.databases import MovedClock
from tests.service.sales import PAYER, authorize, open_store, resolve, sign
from tests.service.test_restore import lose_prices, publish_newer, reopen
from tests.support.threads import run_in_threads

pytestmark = pytest.mark.every_value


def list_payers(store: SqlStore) -> list[PayerView]:
    as_of = store.fix_snapshot(None)
    assert as_of is not None
    return [*store.list_payers(ParsedListQuery(as_of, True, 1, 100, {})).records]


def count(database: Database) -> tuple[int, int]:
    with database.read() as connection:
        counted = (select(func.count()).select_from(table) for table in (payers, transactions))
        made, sold = (connection.execute(one).scalar_one() for one in counted)
        return made, sold


def test_a_refused_payment_leaves_no_payer(database: Database, store: SqlStore) -> None:
    context = resolve(store)
    verified = PaymentVerified(PAYER, 100, funds=context.terms.amount - 1)
    assert store.authorize(context, sign(context), verified) is None
    assert count(database) == (0, 0)
    assert list_payers(store) == []


def test_a_price_that_is_gone_leaves_no_payer(database: Database, clock: MovedClock) -> None:
    store = open_store(database, clock)
    publish_newer(store, database)
    newer = reopen(store)
    context = resolve(newer)
    lose_prices(store, database, context.revision.number)
    with pytest.raises(DatabaseError, match="older copy"):
        newer.authorize(context, sign(context), PaymentVerified(PAYER, 100))
    assert count(database) == (0, 0)


def test_a_payer_is_observed_with_its_transaction(store: SqlStore, clock: MovedClock) -> None:
    clock.move(60)
    made = authorize(store)
    [listed] = list_payers(store)
    assert (listed.id, listed.identifier) == (made.payer.id, PAYER)
    assert listed.created_at == listed.last_transaction_at == made.payer.created_at == made.created_at


def test_a_stamp_later_than_the_clock_is_that_of_both(store: SqlStore, clock: MovedClock) -> None:
    """A list fixed a moment that this process has not reached."""
    other = open_store(store._database, lambda: clock.moment + timedelta(seconds=5))
    other.fix_snapshot(None)
    made = authorize(store)
    [listed] = list_payers(store)
    assert listed.created_at == listed.last_transaction_at == made.created_at > clock.moment


def test_a_payer_of_another_process_is_found(database: Database, clock: MovedClock) -> None:
    first = authorize(open_store(database, clock))
    clock.move(60)
    store = open_store(database, clock)
    second = authorize(store)
    assert second.payer == first.payer
    assert second.created_at - second.payer.created_at == timedelta(seconds=60)
    third = authorize(store)  # from what the process remembers
    assert third.payer == first.payer
    assert count(database) == (1, 3)


def test_a_payer_is_as_old_as_its_earliest_transaction(database: Database, clock: MovedClock) -> None:
    """The clocks of two processes differ: the one that writes second stamps earlier."""
    ahead = open_store(database, lambda: clock.moment + timedelta(seconds=1))
    authorize(ahead)
    earlier = authorize(open_store(database, clock))
    assert earlier.payer.created_at == earlier.created_at == clock.moment
    clock.move(60)
    [listed] = list_payers(open_store(database, clock))
    assert listed.created_at == earlier.created_at


def test_first_payments_at_once_make_one_payer(database: Database, clock: MovedClock) -> None:
    stores = [open_store(database, clock) for _ in range(4)]
    sold: list[str] = []

    def sell(store: SqlStore) -> None:
        sold.append(authorize(store).payer.id)

    run_in_threads(*[lambda store=store: sell(store) for store in stores])
    assert len(sold) == 4
    assert len(set(sold)) == 1
    assert count(database) == (1, 4)
