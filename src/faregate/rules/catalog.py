"""The resources and revisions of one environment, with their ids.

Resource, revision and price ids differ between test and live. The integration key and the revision key
(`rvk_`) are the same in both.

Ids are derived, so that setting up the same account makes the same ids. Those of a catalog with an owner also
say whose they are, and those of a revision what it says: no two sellers share one, and no id that was
published once stands for another price, even after an older copy of a database was restored.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from faregate.rules.account import (
    DEFAULT_CREATED_AT,
    Account,
    Resource,
    Revision,
    Seller,
    SettlementRule,
    build_revision,
)
from faregate.rules.ids import derive_id
from faregate.x402.declared_prices import DeclaredPrice
from faregate.x402.models import Terms
from faregate.x402.tokens import TOKENS, Environment, Token

_PRICE: Final = ("amount", "asset", "usage", "price_label")
"""The fields of a revision that say what is paid."""


@dataclass(frozen=True, slots=True)
class PublishedRevision:
    """A revision with its ids. Never changes."""

    id: str
    key: str | None
    number: int
    price_id: str
    price_label: str
    token: Token
    rules: Revision


@dataclass(frozen=True, slots=True)
class Listing:
    """One state of a resource in one environment. The last revision is the active one."""

    id: str
    resource: Resource
    revisions: tuple[PublishedRevision, ...]
    require_payment: bool
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None = None
    settlement: SettlementRule | None = None

    @property
    def active(self) -> PublishedRevision:
        return self.revisions[-1]

    def is_archived(self, moment: datetime) -> bool:
        return self.archived_at is not None and self.archived_at <= moment


@dataclass(slots=True)
class Catalog:
    """The resources of one environment by integration key, in the order of the account.

    Every earlier state of a resource is kept, so that a list can show any past moment. `owner` is the id of
    the seller's organisation; None in the emulator, where only keys and numbers make ids.
    """

    environment: Environment
    owner: str | None = None
    listings: dict[str, Listing] = field(default_factory=dict[str, Listing])
    _by_revision: dict[str, str] = field(default_factory=dict[str, str])
    _versions: dict[str, list[Listing]] = field(default_factory=dict[str, list[Listing]])

    def put(self, listing: Listing) -> None:
        """Add a resource, or replace its current state without a new version."""
        self.listings[listing.resource.key] = listing
        # The last version is the current state, so lists of the present show it at once.
        self._versions.setdefault(listing.resource.key, [listing])[-1] = listing
        self._by_revision.update({revision.id: listing.resource.key for revision in listing.revisions})

    def edit(self, key: str, moment: datetime, change: Callable[[Listing], Listing]) -> None:
        """Change a resource, as a new version from `moment` on; `KeyError` if it is unknown."""
        # A new object: transactions and lists keep the version that they were made with.
        changed = replace(change(self.listings[key]), updated_at=moment)
        self._versions[key].append(changed)
        self.put(changed)

    def restore_versions(self, versions: Sequence[Listing]) -> None:
        """Replace a resource by these versions, oldest first."""
        self._versions[versions[-1].resource.key] = list(versions)
        self.put(versions[-1])

    def versions(self, key: str) -> tuple[Listing, ...]:
        """Return every version of the resource, oldest first, each valid from its `updated_at` on."""
        return tuple(self._versions[key])

    def version(self, key: str, moment: datetime) -> Listing | None:
        """Return the resource as it was at this moment; None if it did not exist yet."""
        versions = self._versions[key]
        number = bisect_right(versions, moment, key=lambda listing: listing.updated_at)
        return versions[number - 1] if number else None

    def at(self, moment: datetime) -> Iterator[Listing]:
        """Iterate over the resources that existed at this moment, as they were then."""
        versions = (self.version(key, moment) for key in self.listings)
        return (listing for listing in versions if listing is not None)

    def publish(self, key: str, rules: Revision, moment: datetime) -> PublishedRevision:
        """Add a new active revision to the resource."""
        listing = self.listings[key]
        number = len(listing.revisions) + 1
        revision = _build_revision(self.environment, self.owner, listing.resource, number, rules)
        self.edit(key, moment, lambda before: replace(before, revisions=(*before.revisions, revision)))
        return revision

    def find_revision(self, revision_id: str) -> tuple[Listing, PublishedRevision] | None:
        """Find a revision, active or not, and its resource."""
        key = self._by_revision.get(revision_id)
        if key is None:
            return None
        listing = self.listings[key]
        return listing, next(revision for revision in listing.revisions if revision.id == revision_id)

    def active(self, moment: datetime) -> Iterator[Listing]:
        return (listing for listing in self.listings.values() if not listing.is_archived(moment))


def build_terms(
    listing: Listing, revision: PublishedRevision, pay_to: str, facilitators: tuple[str, ...] = ()
) -> Terms:
    """Build what must be paid for this revision. `facilitators` can settle less than was authorized."""
    return Terms(
        revision.token,
        revision.rules.amount,
        pay_to,
        listing.resource.max_timeout_seconds,
        () if revision.rules.usage is None else facilitators,
    )


def declare_price(
    catalog: Catalog, key: str, declared: DeclaredPrice, get_moment: Callable[[], datetime]
) -> None:
    """Make this the active price of a resource, and add the resource if it is not there."""
    listing = catalog.listings.get(key)
    if listing is None:
        moment = get_moment()
        resource = Resource(key=key, name=key, revisions=(build_revision(declared),), created_at=moment)
        catalog.put(_build_listing(catalog.environment, catalog.owner, resource, timedelta()))
        return
    active = listing.active.rules
    if not (asks_price(active, declared) and reports_values(active, declared)):
        catalog.publish(key, _change_price(active, declared), get_moment())


def asks_price(rules: Revision, declared: DeclaredPrice) -> bool:
    """Return whether the revision asks this price that is written in code."""
    return rules.price_terms == build_revision(declared).price_terms


def reports_values(rules: Revision, declared: DeclaredPrice) -> bool:
    """Return whether the revision has just the values of the code; any, where the code names none."""
    return not declared.values or _list_values(rules) == _list_values(build_revision(declared))


def _list_values(rules: Revision) -> dict[str, bool]:
    return {value.name: value.required for value in rules.values}


def _change_price(rules: Revision, declared: DeclaredPrice) -> Revision:
    """Return the rules with another price. What has a rate must be reported.

    Other values stay, unless the code names its own.
    """
    price = build_revision(declared)
    if declared.values:
        return rules.model_copy(update={name: getattr(price, name) for name in (*_PRICE, "values")})
    rated = {value.name: value for value in price.values}
    values = tuple(
        value.model_copy(update={"required": True}) if rated.pop(value.name, None) else value
        for value in rules.values
    )
    price_fields = {name: getattr(price, name) for name in _PRICE}
    return rules.model_copy(update={**price_fields, "values": (*values, *rated.values())})


def describe_published(revision: PublishedRevision) -> dict[str, Any]:
    """Describe a revision to the code that has declared its price."""
    names = [value.name for value in revision.rules.values]
    required = [value.name for value in revision.rules.values if value.required]
    values = {"names": names, "required": required} if names else {}
    return {"id": revision.id, "asset": revision.token.symbol, **values}


def derive_org_id(seller: Seller) -> str:
    """Derive the id of a new organisation, the same in both environments."""
    named = (seller.name,) if seller.id is None else ("id", seller.id)
    return derive_id("org", DEFAULT_CREATED_AT, *named)


def build_catalog(account: Account, environment: Environment, owner: str | None = None) -> Catalog:
    """Build the catalog of one environment of the account, which belongs to this organisation."""
    catalog = Catalog(environment, owner)
    for place, resource in enumerate(account.resources):
        if environment in resource.environments:
            catalog.put(_build_listing(environment, owner, resource, timedelta(milliseconds=place)))
    return catalog


def _build_listing(
    environment: Environment, owner: str | None, resource: Resource, offset: timedelta
) -> Listing:
    # The offset keeps the order of resources that name no date of their own.
    created = resource.created_at.astimezone(UTC) + offset
    return Listing(
        id=derive_id("res", created, environment, resource.key, *_name_owner(owner)),
        resource=resource,
        revisions=tuple(
            _build_revision(environment, owner, resource, number, rules)
            for number, rules in enumerate(resource.revisions, 1)
        ),
        require_payment=resource.require_payment,
        created_at=created,
        updated_at=created,
        archived_at=created if resource.archived else None,
        settlement=resource.settlement,
    )


def _build_revision(
    environment: Environment, owner: str | None, resource: Resource, number: int, rules: Revision
) -> PublishedRevision:
    created_at, place = resource.created_at, (resource.key, str(number), *_name_owner(owner, rules))
    return PublishedRevision(
        id=derive_id("acr", created_at, environment, *place),
        key=derive_id("rvk", created_at, *place) if resource.show_key else None,
        number=number,
        price_id=derive_id("prc", created_at, environment, *place),
        price_label=rules.price_label or rules.default_price_label,
        token=TOKENS[environment, rules.asset],
        rules=rules,
    )


def _name_owner(owner: str | None, *published: Revision) -> tuple[str, ...]:
    """Return what an id is derived from besides a place: whose it is, and what was published."""
    return () if owner is None else (owner, *(rules.model_dump_json() for rules in published))
