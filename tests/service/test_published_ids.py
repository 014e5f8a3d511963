"""Published ids: one for each seller and content, also after a restore; those that are stored stay."""

from collections.abc import Iterator

import pytest
from sqlalchemy import delete, update

from faregate.rules.account import Account
from faregate.rules.catalog import Catalog, Listing, build_catalog
from faregate.service.database.accounts import ensure_account, list_accounts
from faregate.service.database.apply import ChangeKind, apply_account
from faregate.service.database.catalog import load_catalog, save_versions
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.schema import accounts, resource_versions, revisions
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.store_options import Shared, StoreOptions
from faregate.system import random_challenge, random_id
from faregate.x402.tokens import ENVIRONMENTS
from tests.service.databases import MovedClock
from tests.service.sales import authorize, succeeded


def account(*amounts: int, seller: str | None = None) -> Account:
    prices = "".join(f'[[resources.revisions]]\namount = "{amount}"\n' for amount in amounts)
    known = f"[seller]\nid = '{seller}'\n" if seller else ""
    return Account.from_toml(
        f"{known}[[keys]]\nkey = 'svc_test_unused'\n[[resources]]\nkey = 'daily_report'\nname = 'R'\n{prices}"
    )


def read(database: Database, environment: str = "test", place: int = 0) -> Listing:
    with database.read() as connection:
        found = [one for one in list_accounts(connection) if one.environment == environment]
        return load_catalog(connection, found[place]).listings["daily_report"]


def lose_second_prices(database: Database) -> None:
    """What the restoring of a copy from before the second price does to the rows."""
    with database.write() as connection:
        connection.execute(delete(revisions).where(revisions.c.number > 1))
        connection.execute(delete(resource_versions).where(resource_versions.c.number > 1))
        connection.execute(update(accounts).values(catalog_changes=accounts.c.catalog_changes - 1))


def list_ids(listing: Listing) -> Iterator[str]:
    yield listing.id
    for revision in listing.revisions:
        yield from (revision.id, revision.price_id, revision.key or "")


def test_another_price_after_a_restore_has_another_id(database: Database, stamps: Stamps) -> None:
    apply_account(database, stamps, account(10_000))
    apply_account(database, stamps, account(10_000, 20_000))
    published = read(database).active
    lose_second_prices(database)
    apply_account(database, stamps, account(10_000, 30_000))
    after = read(database)
    assert (after.active.number, after.active.rules.amount) == (published.number, 30_000)
    assert {published.id, published.price_id, published.key}.isdisjoint(list_ids(after))


def test_the_same_price_after_a_restore_has_the_same_id(database: Database, stamps: Stamps) -> None:
    apply_account(database, stamps, account(10_000))
    apply_account(database, stamps, account(10_000, 20_000))
    published = read(database)
    lose_second_prices(database)
    apply_account(database, stamps, account(10_000, 20_000))
    assert read(database).active == published.active


def test_no_two_sellers_share_an_id(database: Database, stamps: Stamps) -> None:
    for seller in ("first", "second"):
        apply_account(database, stamps, account(10_000, seller=seller))
    first, second = read(database, place=0), read(database, place=1)
    assert set(list_ids(first)).isdisjoint(list_ids(second))


def test_a_price_has_one_key_in_both_environments(database: Database, stamps: Stamps) -> None:
    apply_account(database, stamps, account(10_000))
    test, live = read(database, "test"), read(database, "live")
    assert test.active.key == live.active.key is not None
    assert test.active.id != live.active.id


@pytest.mark.every_value
def test_ids_that_are_stored_stay_after_an_upgrade(database: Database, clock: MovedClock) -> None:
    """The rows are those of a version that derived ids from environment, key and number only."""
    stamps, config = Stamps(database, clock), account(10_000)
    old = {environment: build_catalog(config, environment) for environment in ENVIRONMENTS}
    with database.write() as connection:
        for environment, catalog in old.items():
            made, _ = ensure_account(connection, config.seller, environment, 0)
            save_versions(connection, made.id, Catalog(environment), catalog)
    store = open_store(database, stamps)
    known = authorize(store)
    clock.move(60)

    assert apply_account(database, stamps, config) == ()
    for environment, catalog in old.items():
        assert read(database, environment).revisions == catalog.listings["daily_report"].revisions
    changes = apply_account(database, stamps, account(10_000, 20_000))
    assert [change.kind for change in changes] == [ChangeKind.REVISED] * 2
    listing = read(database)
    before = old["test"].listings["daily_report"]
    assert (listing.id, listing.revisions[:1]) == (before.id, before.revisions)
    assert read(database, "live").active.key == listing.active.key

    fresh = open_store(database, stamps)
    found = fresh.find_transaction(known.id)
    assert found is not None
    assert found.context.revision.id == before.active.id
    assert fresh.record_outcome(found, succeeded(found)) is not None


def open_store(database: Database, stamps: Stamps) -> SqlStore:
    with database.read() as connection:
        [found] = [one for one in list_accounts(connection) if one.environment == "test"]
    return SqlStore(Shared(database, stamps, random_id, random_challenge, StoreOptions()), found)
