"""Accounts for services on a database: new ones for each test that changes something, in one database.

An account id comes first in every key, so accounts see nothing of each other, and a new account is much
cheaper than a new database. Those of the built-in account are copied from accounts that were applied once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Insert, Integer, Table, bindparam, insert, select, update

from faregate.emulator import Account, Key
from faregate.rules.account import DEFAULT_CREATED_AT
from faregate.rules.builtin_account import builtin_account
from faregate.service.database.accounts import COLUMNS, AccountRow, list_accounts_of
from faregate.service.database.apply import apply_account
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.keys import create_key
from faregate.service.database.schema import (
    accounts,
    api_keys,
    resource_versions,
    resources,
    revisions,
    simulated_balances,
    simulated_rules,
)
from faregate.service.database.simulated_ledger import set_up_ledger
from faregate.system import random_id
from faregate.x402.tokens import Environment
from tests.service.databases import new_database

ENVIRONMENTS: Final[tuple[Environment, ...]] = ("test", "live")
AccountIds = Mapping[Environment, int]
_TEMPLATE: Final = bindparam("template", type_=Integer())


def _build_copy(table: Table, of_template: ColumnElement[bool], **changed: Any) -> Insert:
    """Build the statement that copies the template's rows, with these columns changed."""
    kept = [column for column in table.c if column.name not in changed]
    rows = select(*changed.values(), *kept).where(of_template)
    return insert(table).from_select([*changed, *kept], rows)


_COPY_ROWS: Final = [
    _build_copy(table, table.c.account == _TEMPLATE, account=bindparam("account", type_=Integer()))
    for table in (resources, revisions, resource_versions, simulated_balances, simulated_rules)
]
_FIND_ACCOUNT: Final = select(*COLUMNS).where(accounts.c.id == bindparam("account"))
_COPY_ACCOUNT: Final = insert(accounts).returning(accounts.c.id)
_MOVE_KEYS: Final = (
    update(api_keys).where(api_keys.c.account == bindparam("known")).values(account=bindparam("new"))
)


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
            self._unused = self._copy(self._template)
        return self._unused

    def mark_used(self, ids: AccountIds) -> None:
        """Say that something was written to these accounts: no other test gets them."""
        if self._unused is ids:
            self._unused = None

    def serve(self, ids: AccountIds, keys: Sequence[Key], now: datetime) -> None:
        """Make these keys the valid ones, for these accounts."""
        served, self._served = self._served, (ids, keys)
        if served == self._served:
            return
        with self.database.write() as connection:
            if served is not None and served[1] == keys:
                for environment, account in served[0].items():
                    connection.execute(_MOVE_KEYS, {"known": account, "new": ids[environment]})
            else:
                connection.execute(api_keys.delete())
                _create_keys(connection, ids, keys, now)

    def _apply(self, config: Account, stamps: Stamps) -> AccountIds:
        named = with_seller_id(config, _new_name())
        apply_account(self.database, stamps, named)
        found: dict[Environment, int] = {}
        with self.database.write() as connection:
            for account in list_accounts_of(connection, named.seller):
                set_up_ledger(connection, account, config)
                found[account.environment] = account.id
        return found

    def _copy(self, template: AccountIds) -> AccountIds:
        name = _new_name()
        with self.database.write() as connection:
            return {one: _copy_account(connection, template[one], name) for one in ENVIRONMENTS}


@contextmanager
def open_source(kind: str, folder: Path) -> Iterator[AccountSource]:
    with new_database(kind, folder) as url:
        database = Database(url)
        try:
            yield AccountSource(database)
        finally:
            database.close()


def read_account(connection: Connection, account: int) -> AccountRow:
    return AccountRow(*connection.execute(_FIND_ACCOUNT, {"account": account}).one())


def with_seller_id(config: Account, name: str | None) -> Account:
    return config.model_copy(update={"seller": config.seller.model_copy(update={"id": name})})


def _new_name() -> str:
    return random_id("org", DEFAULT_CREATED_AT)


def _copy_account(connection: Connection, template: int, name: str) -> int:
    known = read_account(connection, template)
    values = {
        "org": name,
        "seller_id": name,
        "environment": known.environment,
        "name": known.name,
        "pay_to": known.pay_to,
        "catalog": known.catalog,
        "created_at": 0,
    }
    account: int = connection.execute(_COPY_ACCOUNT, values).scalar_one()
    for copy_rows in _COPY_ROWS:
        connection.execute(copy_rows, {"template": template, "account": account})
    return account


def _create_keys(connection: Connection, ids: AccountIds, keys: Sequence[Key], now: datetime) -> None:
    for key in keys:
        account = read_account(connection, ids[key.environment])
        create_key(connection, account, now, capabilities=key.capabilities, secret=key.key)
