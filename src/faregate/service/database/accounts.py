"""Accounts: one for each environment of a seller organisation.

The `[seller] id` of a catalog names its seller. A seller without an id belongs to a catalog with the same
name and address. So no catalog changes the address of a seller that it does not name.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from faregate.errors import ConfigurationError
from faregate.rules.account import Seller
from faregate.rules.catalog import derive_org_id
from faregate.service.database.engine import Database, Inserts
from faregate.service.database.schema import accounts, generation
from faregate.service.database.statements import Statement
from faregate.x402.tokens import Environment


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An account as it is now. `catalog` counts the changes of its catalog.

    `generation` is that of the whole database: what was remembered in another one is not true any more.
    """

    id: int
    org: str
    environment: Environment
    name: str
    pay_to: str
    catalog: int
    seller_id: str | None = None
    generation: str = ""


COLUMNS: Final = (
    accounts.c.id,
    accounts.c.org,
    accounts.c.environment,
    accounts.c.name,
    accounts.c.pay_to,
    accounts.c.catalog_changes,
    accounts.c.seller_id,
    select(generation.c.id).scalar_subquery().label("generation"),
)
_ALL: Final = select(*COLUMNS).order_by(accounts.c.id)
_FIND: Final = select(*COLUMNS).where(
    accounts.c.org == bindparam("org"), accounts.c.environment == bindparam("environment")
)
_READ: Final = Statement(_FIND)
_CREATE: Final = Inserts(accounts, lambda insert: insert.on_conflict_do_nothing())
_UPDATE: Final = (
    update(accounts)
    .where(accounts.c.id == bindparam("of_account"))
    .values(name=bindparam("new_name"), pay_to=bindparam("new_pay_to"), seller_id=bindparam("new_seller_id"))
)


def list_accounts(connection: Connection) -> tuple[AccountRow, ...]:
    return tuple(AccountRow(*row) for row in connection.execute(_ALL))


def list_accounts_of(connection: Connection, seller: Seller) -> tuple[AccountRow, ...]:
    """List the accounts of this seller, which has some."""
    org = _find_org(connection, seller)
    return tuple(account for account in list_accounts(connection) if account.org == org)


def find_account(connection: Connection, org: str, environment: Environment) -> AccountRow | None:
    row = connection.execute(_FIND, {"org": org, "environment": environment}).one_or_none()
    return None if row is None else AccountRow(*row)


def read_account(database: Database, org: str, environment: Environment) -> AccountRow | None:
    """Find the account as it is now, with each request. Raises `DatabaseError`."""
    rows = database.query(_READ, {"org": org, "environment": environment})
    return AccountRow(*rows[0].values()) if rows else None


def ensure_account(
    connection: Connection, seller: Seller, environment: Environment, now: int
) -> tuple[AccountRow, bool]:
    """Return the account, and whether it had to be created.

    Raises `ConfigurationError` if the database cannot tell which seller this is.
    """
    org = _find_org(connection, seller) or derive_org_id(seller)
    account = find_account(connection, org, environment)
    if account is not None:
        return account, False
    values = {"org": org, "environment": environment, **_to_columns(seller)}
    # Another process may create it at the same time.
    connection.execute(_CREATE.get(connection), {**values, "created_at": now})
    created = find_account(connection, org, environment)
    assert created is not None  # noqa: S101 - accounts are never deleted
    return created, True


def update_account(connection: Connection, account: AccountRow, seller: Seller) -> bool:
    """Give the account this id, name and address; False if it has them. The caller holds its lock alone."""
    columns = _to_columns(seller)
    if all(getattr(account, name) == value for name, value in columns.items()):
        return False
    values = {f"new_{name}": value for name, value in columns.items()}
    connection.execute(_UPDATE, {"of_account": account.id, **values})
    return True


def _to_columns(seller: Seller) -> dict[str, str | None]:
    return {"seller_id": seller.id, "name": seller.name, "pay_to": seller.pay_to}


def _find_org(connection: Connection, seller: Seller) -> str | None:
    """Find the organisation of this seller; None if it is a new one. Raises `ConfigurationError`."""
    accounts = list_accounts(connection)
    if seller.id is not None:
        for account in accounts:
            if account.seller_id == seller.id:
                return account.org
    without_id = [account for account in accounts if account.seller_id is None]
    for account in without_id:
        if (account.name, account.pay_to) == (seller.name, seller.pay_to):
            return account.org
    if without_id:
        raise ConfigurationError(_explain_change(without_id[0], seller))
    if accounts and seller.id is None:
        ids = ", ".join(sorted({account.seller_id or "" for account in accounts}))
        raise ConfigurationError(
            f"The sellers of this database have ids: write `id` under [seller]. Known ids: {ids}."
        )
    return None


def _explain_change(account: AccountRow, seller: Seller) -> str:
    return (
        f"The database has the seller {account.name!r}, paid to {account.pay_to}, and the catalog has "
        f"{seller.name!r}, paid to {seller.pay_to}. Before a seller changes, and before there is a second "
        f"one, {account.name!r} needs an id: write a line such as `id = 'shop'` under [seller] of its "
        "catalog as it was, and apply that. Then apply the change with the same id, or the second seller "
        "with another."
    )
