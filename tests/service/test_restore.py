"""A process that lives while an older copy of its database is restored: each sale has a row that is found."""

import shutil
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from faregate.rules.builtin_account import builtin_account
from faregate.rules.http import ParsedListQuery
from faregate.rules.payments import PaymentVerified
from faregate.service.commands.setup import apply_seller
from faregate.service.database.accounts import list_accounts
from faregate.service.database.engine import Database, DatabaseError
from faregate.service.database.generation import renew_generation
from faregate.service.database.reports import Revenue
from faregate.service.database.schema import (
    accounts,
    attempts,
    payers,
    resource_versions,
    revisions,
    transactions,
)
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.upgrade import upgrade
from faregate.service.storage import Storage
from tests.service.command import call
from tests.service.databases import MovedClock
from tests.service.sales import PAYER, authorize, open_store, resolve, settle, sign

NEWER = 3


def lose_sales(database: Database) -> None:
    """What the restoring of a copy from before the first sale does to the rows."""
    with database.write() as connection:
        for table in (attempts, transactions, payers):
            connection.execute(delete(table))


def reopen(store: SqlStore) -> SqlStore:
    """The store as the next request of the same process opens it."""
    with store._database.read() as connection:
        account = next(one for one in list_accounts(connection) if one.id == store.account.id)
    return SqlStore(store._shared, account)


def publish_newer(store: SqlStore, database: Database) -> None:
    """A new price, which the copy does not have."""
    seller = builtin_account()
    newer = [
        one.model_copy(
            update={"revisions": (*one.revisions, one.revisions[-1].model_copy(update={"amount": 7}))}
        )
        for one in seller.resources
    ]
    storage = Storage(database, store.stamps)
    apply_seller(storage, seller.model_copy(update={"resources": tuple(newer)}))


def lose_prices(store: SqlStore, database: Database, newest: int) -> None:
    with database.write() as connection:
        connection.execute(delete(revisions).where(revisions.c.number >= newest))
        connection.execute(delete(resource_versions).where(resource_versions.c.number >= 2))
        connection.execute(update(accounts).values(catalog_changes=store.account.catalog))


@pytest.mark.every_value
def test_a_payer_that_the_copy_does_not_have_is_written_again(database: Database, clock: MovedClock) -> None:
    store = open_store(database, clock)
    settle(store)
    lose_sales(database)
    sold = authorize(reopen(store))
    found = store.find_transaction(sold.id)
    assert found is not None
    assert found.payer.identifier == PAYER
    assert authorize(reopen(store)).payer == sold.payer


@pytest.mark.every_value
def test_a_price_that_the_copy_does_not_have_is_not_sold(database: Database, clock: MovedClock) -> None:
    store = open_store(database, clock)
    resolve(store)
    publish_newer(store, database)
    newer = reopen(store)
    context = resolve(newer)
    assert context.terms.amount == 7
    lose_prices(store, database, context.revision.number)
    with pytest.raises(DatabaseError, match="older copy"):
        newer.authorize(context, sign(context), PaymentVerified(PAYER, 100))
    assert resolve(reopen(newer)).terms.amount != 7
    assert authorize(reopen(newer)).context.terms.amount != 7


def test_a_catalog_that_went_back_is_read_again(database: Database, clock: MovedClock) -> None:
    store = open_store(database, clock)
    publish_newer(store, database)
    newer = reopen(store)
    newest = resolve(newer).revision
    lose_prices(store, database, newest.number)
    assert resolve(reopen(newer)).revision.id != newest.id


@pytest.mark.every_value
def test_what_was_remembered_is_forgotten_with_the_generation(database: Database, clock: MovedClock) -> None:
    store = open_store(database, clock)
    settle(store)
    clock.move(86_400)
    query = ParsedListQuery(clock.moment, False, 1, 10, {})
    revenue = Revenue(database, store.stamps)

    def read() -> tuple[int, int]:
        current = reopen(store)
        current.fix_snapshot(clock.moment)
        days = revenue.list_days(current.account, clock.moment, 2)
        return current.list_transactions(query, None, None).count, days[1].succeeded

    assert read() == (1, 1)
    lose_sales(database)
    assert read() == (1, 1)  # as remembered: nothing has said yet that this is another database
    renew_generation(database)
    assert read() == (0, 0)


def test_init_begins_a_generation(tmp_path: Path, clock: MovedClock) -> None:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    upgrade(url)
    database = Database(url)
    store = open_store(database, clock)
    first = reopen(store).account.generation
    assert reopen(store).account.generation == first != ""
    assert call(tmp_path, "init", "--database", url).returncode == 0
    assert reopen(store).account.generation not in ("", first)
    database.close()


def test_a_file_that_was_replaced_is_opened_again(tmp_path: Path, clock: MovedClock) -> None:
    """A connection to the old file would write what nobody reads."""
    file = tmp_path / "service.db"
    upgrade(f"sqlite:///{file}")
    database = Database(f"sqlite:///{file}")
    store = open_store(database, clock)
    with sqlite3.connect(file) as original, sqlite3.connect(tmp_path / "copy.db") as copy:
        original.backup(copy)
    settle(store)
    for kind in ("", "-wal", "-shm"):
        Path(f"{file}{kind}").unlink(missing_ok=True)
    shutil.move(tmp_path / "copy.db", file)
    sold = settle(reopen(store))
    database.close()
    fresh = Database(f"sqlite:///{file}")
    with fresh.read() as connection:
        found = connection.execute(transactions.select()).mappings().all()
    fresh.close()
    assert [row["id"] for row in found] == [sold.id]


def test_the_generation_is_the_same_for_all_accounts(database: Database, clock: MovedClock) -> None:
    open_store(database, clock)
    clock.move(timedelta(days=1).total_seconds())
    with database.read() as connection:
        found = list_accounts(connection)
    assert len({one.generation for one in found}) == 1
