"""The catalog in the database: read whole, and kept in memory until it changes.

A catalog is small, and its parts never change: an edit adds a version, a new price adds a revision. So a
process keeps each account's catalog with its number, and asks the database for the number only.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Table, bindparam, insert, select

from faregate.rules.account import Resource, Revision, SettlementRule
from faregate.rules.catalog import Catalog, Listing, PublishedRevision
from faregate.service.database.accounts import AccountRow
from faregate.service.database.schema import resource_versions, resources, revisions
from faregate.service.database.types import to_datetime, to_microseconds
from faregate.x402.tokens import Environment, Token


def _all_of(table: Table, *order: str) -> Any:
    of_account = table.c.account == bindparam("of_account")
    return select(table).where(of_account).order_by(*(table.c[name] for name in order))


_RESOURCES: Final = _all_of(resources, "created_at", "id")
_REVISIONS: Final = _all_of(revisions, "resource", "number")
_VERSIONS: Final = _all_of(resource_versions, "resource", "number")


class KnownCatalog:
    """An account's catalog, found by ids. It must not be changed."""

    def __init__(self, number: int, catalog: Catalog) -> None:
        self.number = number
        self.catalog = catalog
        self._keys = {listing.id: key for key, listing in catalog.listings.items()}
        listings = catalog.listings.values()
        self._revisions = {revision.id: revision for listing in listings for revision in listing.revisions}

    def get_version(self, resource_id: str, number: int) -> Listing:
        """Return the resource as of this version; `LookupError` if it is newer than this catalog."""
        return self.catalog.versions(self._keys[resource_id])[number - 1]

    def get_revision(self, revision_id: str) -> PublishedRevision:
        """Return the revision; `LookupError` if it is newer than this catalog."""
        return self._revisions[revision_id]

    def count_versions(self, listing: Listing) -> int:
        """Return the number of this version: versions are numbered from 1."""
        versions = self.catalog.versions(listing.resource.key)
        return bisect_right(versions, listing.updated_at, key=lambda version: version.updated_at)


class Catalogs:
    """The catalogs of all accounts, as this process knows them."""

    def __init__(self) -> None:
        self._known: dict[int, KnownCatalog] = {}

    def find(self, account: AccountRow) -> KnownCatalog | None:
        """Return the catalog if this process knows the one that the account names."""
        cached = self._known.get(account.id)
        # Not a later one either: an older copy of the database counts from its own number.
        return cached if cached is not None and cached.number == account.catalog else None

    def get(self, connection: Connection, account: AccountRow) -> KnownCatalog:
        """Return the catalog with the number that the account names."""
        kept = self.find(account)
        if kept is None:
            # The number was read before the rows: at worst they are newer, and are read once more later.
            kept = KnownCatalog(account.catalog, load_catalog(connection, account))
            self._known[account.id] = kept
        return kept


def load_catalog(connection: Connection, account: AccountRow) -> Catalog:
    """Read the whole catalog of the account."""
    # Versions name revisions, and both name resources. In this order everything that a row names is there,
    # even if another process publishes meanwhile.
    versions = _group(connection.execute(_VERSIONS, {"of_account": account.id}).all())
    published = _group(connection.execute(_REVISIONS, {"of_account": account.id}).all())
    catalog = Catalog(account.environment, account.org)
    for resource in connection.execute(_RESOURCES, {"of_account": account.id}):
        revisions = [_to_revision(row) for row in published[resource.id]]
        listings = [
            _to_listing(account.environment, resource, row, revisions) for row in versions[resource.id]
        ]
        if listings:
            catalog.restore_versions(listings)
    return catalog


def _group(rows: Sequence[Any]) -> Mapping[str, list[Any]]:
    grouped: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        grouped[row.resource].append(row)
    return grouped


def _to_revision(row: Any) -> PublishedRevision:
    rules = {
        "amount": row.amount,
        "asset": row.asset,
        "values": json.loads(row.value_rules),
        "name": row.name,
        "price_label": row.own_price_label,
        "usage": None if row.usage is None else json.loads(row.usage),
    }
    token = Token(row.asset, row.chain, row.token_address, row.token_name, row.token_version)
    return PublishedRevision(
        row.id,
        row.revision_key,
        row.number,
        row.price_id,
        row.price_label,
        token,
        Revision.model_validate(rules),
    )


def _to_listing(
    environment: Environment, resource: Any, row: Any, published: Sequence[PublishedRevision]
) -> Listing:
    created_at = to_datetime(resource.created_at)
    until_active = tuple(published[: row.active_revision])
    settlement = None if row.settlement is None else SettlementRule.model_validate_json(row.settlement)
    rules = Resource(
        key=resource.key,
        name=row.name,
        description=row.description,
        image_url=row.image_url,
        revisions=tuple(revision.rules for revision in until_active),
        environments=(environment,),
        show_key=row.show_key,
        require_payment=row.require_payment,
        archived=row.archived_at is not None,
        max_timeout_seconds=row.max_timeout_seconds,
        settlement=settlement,
        created_at=created_at,
    )
    return Listing(
        id=resource.id,
        resource=rules,
        revisions=until_active,
        require_payment=row.require_payment,
        created_at=created_at,
        updated_at=to_datetime(row.valid_from),
        archived_at=None if row.archived_at is None else to_datetime(row.archived_at),
        settlement=settlement,
    )


def save_versions(connection: Connection, account: int, before: Catalog, after: Catalog) -> bool:
    """Add what `after` has beyond `before`; return whether there was anything."""
    is_changed = False
    for key, listing in after.listings.items():
        stored = before.listings.get(key)
        if stored is None:
            connection.execute(insert(resources), _resource_values(account, listing))
        stored_revisions = 0 if stored is None else len(stored.revisions)
        stored_versions = 0 if stored is None else len(before.versions(key))
        new_revisions = [
            _revision_values(account, listing, revision) for revision in listing.revisions[stored_revisions:]
        ]
        new_versions = [
            _version_values(account, number, version)
            for number, version in enumerate(after.versions(key), 1)
            if number > stored_versions
        ]
        if new_revisions:
            connection.execute(insert(revisions), new_revisions)
        if new_versions:
            connection.execute(insert(resource_versions), new_versions)
        is_changed = is_changed or bool(new_versions)
    return is_changed


def _resource_values(account: int, listing: Listing) -> dict[str, Any]:
    return {
        "account": account,
        "id": listing.id,
        "key": listing.resource.key,
        "created_at": to_microseconds(listing.created_at),
    }


def _revision_values(account: int, listing: Listing, revision: PublishedRevision) -> dict[str, Any]:
    rules, token = revision.rules, revision.token
    return {
        "account": account,
        "id": revision.id,
        "resource": listing.id,
        "number": revision.number,
        "revision_key": revision.key,
        "amount": rules.amount,
        "asset": token.symbol,
        "chain": token.chain,
        "token_address": token.address,
        "token_name": token.name,
        "token_version": token.version,
        "value_rules": json.dumps([value.model_dump(exclude_defaults=True) for value in rules.values]),
        "name": rules.name,
        "price_id": revision.price_id,
        "price_label": revision.price_label,
        "own_price_label": rules.price_label,
        "usage": None if rules.usage is None else rules.usage.model_dump_json(),
        "created_at": to_microseconds(listing.updated_at),
    }


def _version_values(account: int, number: int, listing: Listing) -> dict[str, Any]:
    resource, archived_at = listing.resource, listing.archived_at
    return {
        "account": account,
        "resource": listing.id,
        "number": number,
        "valid_from": to_microseconds(listing.updated_at),
        "active_revision": len(listing.revisions),
        "name": resource.name,
        "description": resource.description,
        "image_url": resource.image_url,
        "require_payment": listing.require_payment,
        "show_key": resource.show_key,
        "max_timeout_seconds": resource.max_timeout_seconds,
        "archived_at": None if archived_at is None else to_microseconds(archived_at),
        "settlement": None if listing.settlement is None else listing.settlement.model_dump_json(),
    }
