"""API keys: stored as a hash, several valid at once, revoked at once."""

import pytest

from faregate.errors import ConfigurationError
from faregate.rules.account import CAPABILITIES, Capability, Seller
from faregate.service.database.accounts import AccountRow, ensure_account, list_accounts
from faregate.service.database.engine import Database
from faregate.service.database.keys import create_key, find_key_owner, list_keys, revoke_key
from faregate.service.database.schema import api_keys
from tests.service.databases import MovedClock


@pytest.fixture
def account(database: Database) -> AccountRow:
    with database.write() as connection:
        account, _ = ensure_account(connection, Seller(), "test", 0)
    return account


def test_a_new_key_opens_its_account(database: Database, account: AccountRow, clock: MovedClock) -> None:
    with database.write() as connection:
        made = create_key(connection, account, clock(), name="shop", capabilities=("access",))
    owner = find_key_owner(database, made.secret)
    unknown = find_key_owner(database, made.secret + "x")
    assert owner is not None
    assert (owner.account, owner.capabilities) == (account, frozenset[Capability](("access",)))
    assert unknown is None


def test_the_key_itself_is_nowhere(database: Database, account: AccountRow, clock: MovedClock) -> None:
    with database.write() as connection:
        made = create_key(connection, account, clock())
        row = connection.execute(api_keys.select()).one()
        listed = list_keys(connection, account.id)
    random = made.secret.removeprefix("svc_test_")
    assert random not in repr((row, made, listed))
    assert listed == (made.stored,)
    assert (made.stored.prefix, made.stored.last_four) == ("svc_test_", made.secret[-4:])
    assert made.stored.capabilities == CAPABILITIES


def test_keys_are_rotated_without_a_gap(database: Database, account: AccountRow, clock: MovedClock) -> None:
    with database.write() as connection:
        old, new = (create_key(connection, account, clock()) for _ in range(2))
    assert find_key_owner(database, old.secret)
    assert find_key_owner(database, new.secret)
    with database.write() as connection:
        assert revoke_key(connection, account.id, old.stored.id, clock.move(1))
        assert not revoke_key(connection, account.id, old.stored.id, clock.move(1))
        shown = {key.id: key.revoked_at for key in list_keys(connection, account.id)}
    assert find_key_owner(database, old.secret) is None
    assert find_key_owner(database, new.secret)
    assert shown[new.stored.id] is None
    assert shown[old.stored.id] == clock.move(-1)


def test_a_key_of_another_environment_is_refused(
    database: Database, account: AccountRow, clock: MovedClock
) -> None:
    with database.write() as connection, pytest.raises(ConfigurationError, match="svc_test_"):
        create_key(connection, account, clock(), secret="svc_live_something")


def test_an_account_is_created_once(database: Database, account: AccountRow) -> None:
    with database.write() as connection:
        again, is_created = ensure_account(connection, Seller(), "test", 1)
        other, _ = ensure_account(connection, Seller(), "live", 1)
        listed = list_accounts(connection)
    assert again == account
    assert not is_created
    assert listed == (account, other)
    assert other.org == account.org
