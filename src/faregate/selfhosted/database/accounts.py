"""Accounts: one for each environment of a seller organisation."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from faregate.selfhosted.database.engine import Inserts
from faregate.selfhosted.database.schema import accounts
from faregate.service.config import DEFAULT_CREATED_AT, Seller
from faregate.service.identifiers import derive_id
from faregate.x402.tokens import Environment


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An account as it is now. `catalog` counts the changes of its catalog."""

    id: int
    org: str
    environment: Environment
    name: str
    pay_to: str
    catalog: int


COLUMNS: Final = (
    accounts.c.id,
    accounts.c.org,
    accounts.c.environment,
    accounts.c.name,
    accounts.c.pay_to,
    accounts.c.catalog_changes,
)
_ALL: Final = select(*COLUMNS).order_by(accounts.c.id)
_FIND: Final = select(*COLUMNS).where(
    accounts.c.org == bindparam("org"), accounts.c.environment == bindparam("environment")
)
_CREATE: Final = Inserts(accounts, lambda insert: insert.on_conflict_do_nothing())
_UPDATE: Final = (
    update(accounts)
    .where(accounts.c.id == bindparam("of_account"))
    .values(name=bindparam("new_name"), pay_to=bindparam("new_pay_to"))
)


def derive_org_id(seller: Seller) -> str:
    """Return the id of this organisation, the same in both environments and at every start."""
    return derive_id("org", DEFAULT_CREATED_AT, seller.name)


def list_accounts(connection: Connection) -> tuple[AccountRow, ...]:
    return tuple(AccountRow(*row) for row in connection.execute(_ALL))


def find_account(connection: Connection, org: str, environment: Environment) -> AccountRow | None:
    row = connection.execute(_FIND, {"org": org, "environment": environment}).one_or_none()
    return None if row is None else AccountRow(*row)


def ensure_account(
    connection: Connection, seller: Seller, environment: Environment, now: int
) -> tuple[AccountRow, bool]:
    """Return the account, and whether it had to be created."""
    org = derive_org_id(seller)
    known = find_account(connection, org, environment)
    if known is not None:
        return known, False
    values = {"org": org, "environment": environment, "name": seller.name, "pay_to": seller.pay_to}
    # Another process may create it at the same time.
    connection.execute(_CREATE.get(connection), {**values, "created_at": now})
    created = find_account(connection, org, environment)
    assert created is not None  # noqa: S101 - accounts are never deleted
    return created, True


def update_account(connection: Connection, account: AccountRow, seller: Seller) -> bool:
    """Give the account this name and address; False if it has them. The caller holds its lock alone."""
    if (account.name, account.pay_to) == (seller.name, seller.pay_to):
        return False
    connection.execute(
        _UPDATE, {"of_account": account.id, "new_name": seller.name, "new_pay_to": seller.pay_to}
    )
    return True
