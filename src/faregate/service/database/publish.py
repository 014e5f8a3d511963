"""Publish the prices that are written in an application's code.

What was published is never changed. Another price is a new revision; one that was published before is sold
again. So processes with the old and the new code may start in any order, and each sells at its own price.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection

from faregate.errors import ConfigurationError
from faregate.rules.account import Account, Key, Resource, Revision, build_revision
from faregate.rules.catalog import (
    Catalog,
    Listing,
    PublishedRevision,
    asks_price,
    build_catalog,
    reports_values,
)
from faregate.service.database.accounts import AccountRow, find_account
from faregate.service.database.apply import NEXT_CATALOG, create_missing
from faregate.service.database.catalog import load_catalog, save_versions
from faregate.service.database.clock import LOCK_ALL, Stamps
from faregate.service.database.engine import Database
from faregate.service.database.types import to_datetime
from faregate.x402.declared_prices import DeclaredPrice

_NAME: Final = "price in code"
"""The name of revisions that come from code. Those of a catalog have another one, or none."""


def publish_prices(
    database: Database, stamps: Stamps, account: AccountRow, wanted: Mapping[str, DeclaredPrice]
) -> Mapping[str, PublishedRevision]:
    """Publish what is not published yet; return the revision of each integration key.

    All is published or nothing. Raises `ConfigurationError` for a price that contradicts a catalog, and
    `DatabaseError`.
    """
    with database.read() as connection:
        published = _find_all(load_catalog(connection, account), wanted)
    if len(published) == len(wanted):  # in most processes: nothing is written, and nothing locked
        return published
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(LOCK_ALL)
        return _publish(connection, stamps, account, wanted)


def _publish(
    connection: Connection, stamps: Stamps, account: AccountRow, wanted: Mapping[str, DeclaredPrice]
) -> Mapping[str, PublishedRevision]:
    moment = to_datetime(stamps.take_alone(connection, account.id))
    account = find_account(connection, account.org, account.environment) or account
    # Two, because `after` is edited in place.
    before, after = load_catalog(connection, account), load_catalog(connection, account)
    listings = _build_listings(account, after, wanted, moment)
    for _ in create_missing(connection, account, after, listings, moment):
        pass
    published = _find_all(after, wanted)
    for key, declared in wanted.items():
        if key not in published:
            after.publish(key, build_revision(declared, _NAME), moment)
    if save_versions(connection, account.id, before, after):
        connection.execute(NEXT_CATALOG, {"of_account": account.id})
    return _find_all(after, wanted)


def _build_listings(
    account: AccountRow, catalog: Catalog, wanted: Mapping[str, DeclaredPrice], moment: datetime
) -> Mapping[str, Listing]:
    """Build the resources that the catalog lacks."""
    missing = tuple(
        Resource(key=key, name=key, revisions=(build_revision(declared, _NAME),))
        for key, declared in wanted.items()
        if key not in catalog.listings
    )
    if not missing:
        return {}
    # An account has a key. This one stands in, and is not stored.
    listed = Account(resources=missing, keys=(Key(key="svc_test_none"),))
    listings = build_catalog(listed, account.environment, account.org).listings
    # The time of the ids is the same in every database, that of the resources is not.
    return {
        key: replace(listing, created_at=created, updated_at=created)
        for place, (key, listing) in enumerate(listings.items())
        for created in (moment + timedelta(microseconds=place),)
    }


def _find_all(catalog: Catalog, wanted: Mapping[str, DeclaredPrice]) -> dict[str, PublishedRevision]:
    revisions = {key: _find(catalog, key, declared) for key, declared in wanted.items()}
    return {key: revision for key, revision in revisions.items() if revision is not None}


def _find(catalog: Catalog, key: str, declared: DeclaredPrice) -> PublishedRevision | None:
    """Find the latest revision at this price. Raises `ConfigurationError` if a catalog says another one."""
    listing = catalog.listings.get(key)
    if listing is None:
        return None
    active = listing.active
    if active.rules.name != _NAME:
        if asks_price(active.rules, declared):
            _check_values(key, active.rules, declared)
            return active
        published_price = active.rules.default_price_label
        by_rates = " by other rates" if published_price == str(declared.price) else ""
        raise ConfigurationError(
            f"{key!r} is sold for {declared.price} in the code, and for {published_price}{by_rates} "
            "in the catalog: make both say the same, or leave one out."
        )
    if listing.archived_at is not None:
        raise ConfigurationError(
            f"{key!r} is archived in the catalog, and the code sells it: restore it there, or leave it "
            "out here."
        )
    wanted = build_revision(declared, _NAME)
    same = (revision for revision in reversed(listing.revisions) if revision.rules == wanted)
    return next(same, None)


def _check_values(key: str, rules: Revision, declared: DeclaredPrice) -> None:
    """Raise `ConfigurationError` if the code names other values than the catalog."""
    if not reports_values(rules, declared):
        values = {value.name: "required" if value.required else "optional" for value in rules.values}
        raise ConfigurationError(
            f"{key!r} is sold with values={dict(declared.values)} in the code, and with {values} in the "
            "catalog: make both say the same, or leave values= out."
        )
