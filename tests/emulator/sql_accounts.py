"""Accounts for services on a database: new ones for each test that changes something, in one database.

An account id comes first in every key, so accounts see nothing of each other, and a new account is much
cheaper than a new database. That of the built-in account is copied from one that was applied once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Table, insert, literal, select, update

from faregate.emulator import Account, Key
from faregate.selfhosted.database.accounts import AccountRow, derive_org_id, find_account, list_accounts
from faregate.selfhosted.database.apply import apply_account
from faregate.selfhosted.database.clock import Stamps
from faregate.selfhosted.database.engine import Database
from faregate.selfhosted.database.keys import create_key
from faregate.selfhosted.database.schema import accounts, api_keys, metadata
from faregate.selfhosted.database.simulated import set_up_ledger
from faregate.service.builtin import builtin_account
from faregate.service.config import DEFAULT_CREATED_AT
from faregate.system import random_id
from faregate.x402.tokens import Environment
from tests.selfhosted.databases import new_database

ENVIRONMENTS: Final[tuple[Environment, ...]] = ("test", "live")
AccountIds = Mapping[Environment, int]
_COPIED: Final = [table for table in metadata.sorted_tables if "account" in table.c and table is not api_keys]


class AccountSource:
    """Creates accounts in one database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._template: AccountIds | None = None
        self._unused: AccountIds | None = None
        self._served: tuple[AccountIds, Sequence[Key]] | None = None

    def create(self, config: Account, stamps: Stamps) -> AccountIds:
        """Create accounts as this file says."""
        if config != builtin_account():
            return self._apply(config, stamps)
        if self._template is None:
            self._template = self._apply(config, stamps)
        if self._unused is None:
            self._unused = self._copy(self._template, derive_org_id(config.seller))
        return self._unused

    def mark_used(self, ids: AccountIds) -> None:
        """Say that something was written to these accounts: no other test gets them."""
        if self._unused is ids:
            self._unused = None

    def serve(self, ids: AccountIds, keys: Sequence[Key], now: datetime) -> None:
        """Make these keys the valid ones, for these accounts."""
        if self._served == (ids, keys):
            return
        self._served = ids, keys
        with self.database.write() as connection:
            connection.execute(api_keys.delete())
            for key in keys:
                account = read_account(connection, ids[key.environment])
                create_key(connection, account, now, capabilities=key.capabilities, secret=key.key)

    def _apply(self, config: Account, stamps: Stamps) -> AccountIds:
        org = derive_org_id(config.seller)
        self._unused = None  # it gets another name
        with self.database.write() as connection:
            _rename(connection, org)
        apply_account(self.database, stamps, config)
        found: dict[Environment, int] = {}
        with self.database.write() as connection:
            for environment in ENVIRONMENTS:
                account = find_account(connection, org, environment)
                assert account is not None
                set_up_ledger(connection, account, config)
                found[environment] = account.id
        return found

    def _copy(self, template: AccountIds, org: str) -> AccountIds:
        with self.database.write() as connection:
            _rename(connection, org)
            return {name: _copy_account(connection, template[name], org) for name in ENVIRONMENTS}


@contextmanager
def open_source(kind: str, folder: Path) -> Iterator[AccountSource]:
    with new_database(kind, folder) as url:
        database = Database(url)
        try:
            yield AccountSource(database)
        finally:
            database.close()


def read_account(connection: Connection, account: int) -> AccountRow:
    return next(one for one in list_accounts(connection) if one.id == account)


def _rename(connection: Connection, org: str) -> None:
    """Give the accounts of this organisation another name, so that its next ones are new."""
    named = update(accounts).where(accounts.c.org == org)
    connection.execute(named.values(org=random_id("org", DEFAULT_CREATED_AT)))


def _copy_account(connection: Connection, template: int, org: str) -> int:
    new: dict[str, Any] = {"id": None, "org": org, "fence": 0}
    kept = [column for column in accounts.c if column.name not in new]
    row = select(literal(org), literal(0), *kept).where(accounts.c.id == template)
    copied = insert(accounts).from_select(["org", "fence", *(column.name for column in kept)], row)
    account: int = connection.execute(copied.returning(accounts.c.id)).scalar_one()
    for table in _COPIED:
        connection.execute(_copy_rows(table, template, account))
    return account


def _copy_rows(table: Table, template: int, account: int) -> Any:
    kept = [column for column in table.c if column.name != "account"]
    rows = select(literal(account), *kept).where(table.c.account == template)
    return insert(table).from_select(["account", *(column.name for column in kept)], rows)
