"""Apply an account file: make the catalog in the database what the file says.

The file is that of the emulator (`rules/account.py`); its keys are not applied. Applying a file twice
changes nothing the second time. What was published is never edited: another price or contract is a new
revision, another name or description a new version of the resource.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, bindparam, update

from faregate.errors import ConfigurationError
from faregate.rules.account import Account, Resource, Revision, Seller
from faregate.rules.catalog import Catalog, Listing, build_catalog
from faregate.service.database.accounts import (
    AccountRow,
    ensure_account,
    list_accounts,
    update_account,
)
from faregate.service.database.catalog import load_catalog, save_versions
from faregate.service.database.clock import FENCE, LOCK_ALL, Stamps
from faregate.service.database.engine import Database
from faregate.service.database.schema import accounts
from faregate.service.database.types import to_datetime
from faregate.x402.tokens import ENVIRONMENTS, Environment

NEXT_CATALOG: Final = (
    update(accounts)
    .where(accounts.c.id == bindparam("of_account"))
    .values(catalog_changes=accounts.c.catalog_changes + 1)
)
_SHOWN: Final = ("name", "description", "image_url", "show_key", "max_timeout_seconds")


class ChangeKind(StrEnum):
    """What applying a file did to a resource, or to the seller."""

    CREATED = "created"
    REVISED = "revised"
    """It has a new revision."""
    CHANGED = "changed"
    ARCHIVED = "archived"
    RESTORED = "restored"
    MISSING = "missing"
    """The file does not have it; nothing was done."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change. `resource` is an integration key; None stands for the seller's id, name or address.

    `needs_consent`: it changes who is paid, or a price.
    """

    environment: Environment
    resource: str | None
    kind: ChangeKind
    detail: str = ""
    needs_consent: bool = False


Review = Callable[[Sequence[ConfigChange]], None]
"""Sees the changes before they are made, and raises to prevent them."""


def apply_account(
    database: Database,
    stamps: Stamps,
    config: Account,
    *,
    environments: Sequence[Environment] = ENVIRONMENTS,
    archive_missing: bool = False,
    review: Review | None = None,
) -> tuple[ConfigChange, ...]:
    """Apply the file to these environments and return what changed. Accounts are created as needed.

    All is changed or nothing. Raises `DatabaseError`, `ConfigurationError`, and what `review` raises.
    """

    def change(expected: tuple[ConfigChange, ...] | None, *, keep: bool) -> tuple[ConfigChange, ...]:
        with database.write() as connection:
            if not database.is_sqlite:
                # Of two sellers that come at the same time, one must find the other.
                connection.execute(LOCK_ALL)
            changes = tuple(
                change
                for environment in environments
                for change in _apply(connection, stamps, config, environment, archive_missing)
            )
            if expected not in (None, changes):
                raise ConfigurationError("The database changed meanwhile: apply the catalog again.")
            transaction = connection.get_transaction()
            if not keep and transaction is not None:
                transaction.rollback()
            return changes

    if review is None:
        return change(None, keep=True)
    # Nothing is locked while a person thinks.
    planned = change(None, keep=False)
    review(planned)
    return change(planned, keep=True)


def _apply(
    connection: Connection, stamps: Stamps, config: Account, environment: Environment, archive_missing: bool
) -> list[ConfigChange]:
    has_others = any(other.environment == environment for other in list_accounts(connection))
    account, is_created = ensure_account(connection, config.seller, environment, stamps.now())
    # Before the row of the account is locked: code that moves the cut-off time takes the two in this order.
    moment = to_datetime(stamps.take_alone(connection, account.id))
    changes: list[ConfigChange] = []
    if update_account(connection, account, config.seller) or is_created:
        kind = ChangeKind.CREATED if is_created else ChangeKind.CHANGED
        needs_consent = has_others if is_created else account.pay_to != config.seller.pay_to
        detail = _describe_seller(None if is_created else account, config.seller)
        changes.append(ConfigChange(environment, None, kind, detail, needs_consent))
    # Two, because `after` is edited in place.
    before, after = load_catalog(connection, account), load_catalog(connection, account)
    wanted = build_catalog(config, environment, account.org).listings
    changes += create_missing(connection, account, after, wanted, moment)
    for key in before.listings:
        if key in wanted:
            changes += _update(after, wanted[key], moment)
        elif not after.listings[key].archived_at:
            changes.append(_leave_or_archive(after, key, moment, archive_missing))
    if save_versions(connection, account.id, before, after):
        connection.execute(NEXT_CATALOG, {"of_account": account.id})
    return changes


def _describe_seller(stored: AccountRow | None, wanted: Seller) -> str:
    name, address = wanted.name, f"paid to {wanted.pay_to}"
    if stored is not None and stored.name != wanted.name:
        name = f"{name} instead of {stored.name}"
    if stored is not None and stored.pay_to != wanted.pay_to:
        address = f"{address} instead of {stored.pay_to}"
    return ", ".join((name, address, *([] if wanted.id is None else [f"id {wanted.id}"])))


def create_missing(
    connection: Connection,
    account: AccountRow,
    catalog: Catalog,
    wanted: Mapping[str, Listing],
    moment: datetime,
) -> Iterator[ConfigChange]:
    fence = to_datetime(connection.execute(FENCE, {"of_account": account.id}).scalar_one())
    created = [listing for key, listing in wanted.items() if key not in catalog.listings]
    for place, listing in enumerate(created):
        created_at = listing.created_at
        if created_at <= fence:
            # A list of that time was answered without it. The offset keeps the order of the file.
            created_at = moment + timedelta(microseconds=place)
        archived_at = created_at if listing.archived_at else None
        catalog.put(replace(listing, created_at=created_at, updated_at=created_at, archived_at=archived_at))
        yield ConfigChange(account.environment, listing.resource.key, ChangeKind.CREATED)


def _update(catalog: Catalog, wanted: Listing, moment: datetime) -> Iterator[ConfigChange]:
    """Bring one resource to what the file says."""
    key = wanted.resource.key
    for rules in _find_new_revisions(catalog.listings[key].resource, wanted.resource):
        before = catalog.listings[key].active
        made = catalog.publish(key, rules, moment)
        is_other_price = made.rules.price_terms != before.rules.price_terms
        price, stored_price = made.rules.default_price_label, before.rules.default_price_label
        if price == stored_price:
            shown = f"{price} by other rates" if is_other_price else price
        else:
            shown = f"{price} instead of {stored_price}"
        detail = f"revision {made.number}: {shown}, {made.id}"
        yield ConfigChange(catalog.environment, key, ChangeKind.REVISED, detail, is_other_price)
    yield from _update_appearance(catalog, wanted, moment)
    yield from _update_archived(catalog, wanted, moment)


def _find_new_revisions(published: Resource, wanted: Resource) -> tuple[Revision, ...]:
    """Find the revisions to publish; the last one of the file is to be the active one."""
    stored = len(published.revisions)
    if wanted.revisions[:stored] == published.revisions:
        return wanted.revisions[stored:]
    return () if wanted.revisions[-1] == published.revisions[-1] else wanted.revisions[-1:]


def _update_appearance(catalog: Catalog, wanted: Listing, moment: datetime) -> Iterator[ConfigChange]:
    key = wanted.resource.key
    listing = catalog.listings[key]
    changed = [name for name in _SHOWN if getattr(listing.resource, name) != getattr(wanted.resource, name)]
    changed += [
        name for name in ("require_payment", "settlement") if getattr(listing, name) != getattr(wanted, name)
    ]
    if changed:
        resource = listing.resource.model_copy(
            update={name: getattr(wanted.resource, name) for name in changed}
        )
        catalog.edit(
            key,
            moment,
            lambda before: replace(
                before,
                resource=resource,
                require_payment=wanted.require_payment,
                settlement=wanted.settlement,
            ),
        )
        detail, is_other_price = ", ".join(changed), "require_payment" in changed
        yield ConfigChange(catalog.environment, key, ChangeKind.CHANGED, detail, is_other_price)


def _update_archived(catalog: Catalog, wanted: Listing, moment: datetime) -> Iterator[ConfigChange]:
    key = wanted.resource.key
    is_archived = catalog.listings[key].archived_at is not None
    if is_archived is not wanted.resource.archived:
        _set_archived(catalog, key, moment, not is_archived)
        kind = ChangeKind.RESTORED if is_archived else ChangeKind.ARCHIVED
        yield ConfigChange(catalog.environment, key, kind)


def _leave_or_archive(catalog: Catalog, key: str, moment: datetime, archive: bool) -> ConfigChange:
    if not archive:
        return ConfigChange(
            catalog.environment, key, ChangeKind.MISSING, "not in the file, and still for sale"
        )
    _set_archived(catalog, key, moment, True)
    return ConfigChange(catalog.environment, key, ChangeKind.ARCHIVED, "not in the file")


def _set_archived(catalog: Catalog, key: str, moment: datetime, archived: bool) -> None:
    catalog.edit(key, moment, lambda before: replace(before, archived_at=moment if archived else None))
