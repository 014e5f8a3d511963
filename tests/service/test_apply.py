"""Applying an account file: idempotent, and what was published never changes."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from faregate.errors import ConfigurationError
from faregate.rules.account import Account
from faregate.rules.builtin_account import builtin_account
from faregate.rules.catalog import Catalog, build_catalog
from faregate.service.database.accounts import AccountRow, find_account, list_accounts
from faregate.service.database.apply import ChangeKind, ConfigChange, apply_account
from faregate.service.database.catalog import Catalogs, load_catalog
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from tests.service.databases import MovedClock
from tests.support.threads import run_in_threads

ONE = """
[[keys]]
key = "svc_test_unused"
[[resources]]
key = "report"
name = "Report"
environments = ["test"]
[[resources.revisions]]
amount = "10000"
values = [{name = "pages", unit = "page", required = true}]
"""


def read(database: Database) -> Catalog:
    with database.read() as connection:
        account = list_accounts(connection)[0]
        return load_catalog(connection, account)


def apply(
    database: Database, stamps: Stamps, text: str, *, archive_missing: bool = False
) -> list[ConfigChange]:
    account = Account.from_toml(text)
    return [
        *apply_account(database, stamps, account, environments=("test",), archive_missing=archive_missing)
    ]


def test_the_catalog_comes_back_as_the_emulator_builds_it(database: Database, stamps: Stamps) -> None:
    apply_account(database, stamps, builtin_account())
    for environment in ("test", "live"):
        with database.read() as connection:
            [account] = [one for one in list_accounts(connection) if one.environment == environment]
            built = build_catalog(builtin_account(), environment, account.org)
            found = load_catalog(connection, account)
        assert list(found.listings) == list(built.listings)
        for key, listing in built.listings.items():
            twin = found.listings[key]
            assert twin.revisions == listing.revisions
            assert (twin.id, twin.created_at, twin.updated_at) == (
                listing.id,
                listing.created_at,
                listing.updated_at,
            )
            assert (twin.archived_at, twin.settlement) == (listing.archived_at, listing.settlement)
            assert twin.resource.appearance == listing.resource.appearance


def test_the_same_file_twice_changes_nothing(database: Database, stamps: Stamps, clock: MovedClock) -> None:
    assert apply_account(database, stamps, builtin_account())
    clock.move(60)
    before = read(database)
    assert apply_account(database, stamps, builtin_account()) == ()
    assert read(database) == before


def test_another_price_is_a_new_revision(database: Database, stamps: Stamps, clock: MovedClock) -> None:
    apply(database, stamps, ONE)
    old = read(database).listings["report"]
    moment = clock.move(60)
    [change] = apply(database, stamps, ONE.replace("10000", "20000"))
    assert (change.kind, change.resource) == (ChangeKind.REVISED, "report")

    catalog = read(database)
    new = catalog.listings["report"]
    assert new.revisions[:1] == old.revisions
    assert (new.active.number, new.active.rules.amount, new.updated_at) == (2, 20000, moment)
    assert catalog.version("report", moment - timedelta(microseconds=1)) == old

    clock.move(60)
    assert apply(database, stamps, ONE.replace("10000", "20000")) == []
    [back] = apply(database, stamps, ONE)
    assert back.kind is ChangeKind.REVISED
    assert [one.rules.amount for one in read(database).listings["report"].revisions] == [10000, 20000, 10000]


def test_another_name_is_a_new_version(database: Database, stamps: Stamps, clock: MovedClock) -> None:
    apply(database, stamps, ONE)
    clock.move(60)
    changed = ONE.replace('name = "Report"', 'name = "Daily report"\nrequire_payment = false')
    [change] = apply(database, stamps, changed)
    assert (change.kind, change.detail) == (ChangeKind.CHANGED, "name, require_payment")
    versions = read(database).versions("report")
    assert [(one.resource.name, one.require_payment) for one in versions] == [
        ("Report", True),
        ("Daily report", False),
    ]
    assert versions[0].revisions == versions[1].revisions


def test_a_resource_is_archived_and_comes_back(database: Database, stamps: Stamps, clock: MovedClock) -> None:
    apply(database, stamps, ONE)
    moment = clock.move(60)
    archived = ONE.replace('name = "Report"', 'name = "Report"\narchived = true')
    [change] = apply(database, stamps, archived)
    assert change.kind is ChangeKind.ARCHIVED
    assert read(database).listings["report"].archived_at == moment
    [change] = apply(database, stamps, ONE)
    assert change.kind is ChangeKind.RESTORED
    assert read(database).listings["report"].archived_at is None


def test_a_missing_resource_is_archived_only_if_asked_for(database: Database, stamps: Stamps) -> None:
    apply(database, stamps, ONE)
    other = ONE.replace('key = "report"', 'key = "other"')
    assert [(one.resource, one.kind) for one in apply(database, stamps, other)] == [
        ("other", ChangeKind.CREATED),
        ("report", ChangeKind.MISSING),
    ]
    assert read(database).listings["report"].archived_at is None
    [change] = apply(database, stamps, other, archive_missing=True)
    assert (change.resource, change.kind) == ("report", ChangeKind.ARCHIVED)
    assert apply(database, stamps, other, archive_missing=True) == []


def test_a_new_resource_is_in_no_list_that_was_answered(
    database: Database, stamps: Stamps, clock: MovedClock
) -> None:
    apply(database, stamps, ONE)
    account = first_account(database)
    as_of = stamps.fix_snapshot(account.id, None)
    assert as_of == clock.moment
    apply(
        database,
        stamps,
        ONE + '\n[[resources]]\nkey = "late"\nname = "Late"\n[[resources.revisions]]\namount = "1"\n',
    )
    catalog = read(database)
    assert [one.resource.key for one in catalog.at(as_of)] == ["report"]
    assert catalog.listings["late"].created_at > as_of


def test_another_address_is_taken_over(database: Database, stamps: Stamps) -> None:
    apply(database, stamps, f'{ONE}\n[seller]\nid = "shop"')
    before = first_account(database)
    address = "0x000000000000000000000000000000000000dEaD"
    [change] = apply(database, stamps, f'{ONE}\n[seller]\nid = "shop"\npay_to = "{address}"')
    assert (change.kind, change.resource, change.needs_consent) == (ChangeKind.CHANGED, None, True)
    after = first_account(database)
    assert (after.id, after.pay_to) == (before.id, address)


def test_a_process_learns_that_the_catalog_changed(database: Database, stamps: Stamps) -> None:
    apply(database, stamps, ONE)
    catalogs = Catalogs()
    with database.read() as connection:
        first = catalogs.get(connection, first_account(database))
        assert catalogs.get(connection, first_account(database)) is first
        apply(database, stamps, ONE.replace("10000", "20000"))
        second = catalogs.get(connection, first_account(database))
    assert second.catalog.listings["report"].active.rules.amount == 20000
    assert first.catalog.listings["report"].active.rules.amount == 10000


def first_account(database: Database) -> AccountRow:
    with database.read() as connection:
        account = list_accounts(connection)[0]
        assert find_account(connection, account.org, account.environment) == account
        return account


def test_a_review_sees_every_change_and_prevents_all(database: Database, stamps: Stamps) -> None:
    seen: list[Sequence[ConfigChange]] = []

    def refuse(changes: Sequence[ConfigChange]) -> None:
        seen.append(changes)
        raise ConfigurationError("no")

    with pytest.raises(ConfigurationError, match="no"):
        apply_account(database, stamps, Account.from_toml(ONE), review=refuse)
    assert [(one.environment, one.resource) for one in seen[0]] == [
        ("test", None),
        ("test", "report"),
        ("live", None),
    ]
    with database.read() as connection:
        assert list_accounts(connection) == ()


def test_what_changed_while_a_person_thought_is_reviewed_again(database: Database, stamps: Stamps) -> None:
    def apply_another(_: Sequence[ConfigChange]) -> None:
        apply(database, stamps, ONE.replace("10000", "30000"))

    apply(database, stamps, ONE)
    with pytest.raises(ConfigurationError, match="changed meanwhile"):
        apply_account(
            database, stamps, Account.from_toml(ONE.replace("10000", "20000")), review=apply_another
        )
    assert read(database).listings["report"].active.rules.amount == 30000


@pytest.mark.every_value
def test_two_sellers_of_one_name_that_come_at_once_are_not_one(database: Database, clock: MovedClock) -> None:
    failures: list[Exception] = []

    def join(address: str) -> None:
        try:
            apply(database, Stamps(database, clock), f'{ONE}\n[seller]\npay_to = "{address}"')
        except ConfigurationError as error:
            failures.append(error)

    addresses = ["0x" + digit * 40 for digit in "1234"]
    run_in_threads(*(partial(join, one) for one in addresses))
    assert len(failures) == 3
    with database.read() as connection:
        assert len(list_accounts(connection)) == 1
