"""The service's database with the stamps of its changes, as commands use it: opened, checked, closed."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from faregate.errors import ConfigurationError
from faregate.rules.account import Seller
from faregate.service.database.accounts import AccountRow, list_accounts
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.reports import (
    PendingPayments,
    count_pending,
    count_pending_by_environment,
)
from faregate.service.database.upgrade import find_missing_migrations, is_new, upgrade
from faregate.service.settings import Settings
from faregate.system import system_clock
from faregate.x402.tokens import Environment

EXAMPLE_PAY_TO: Final = Seller().pay_to
"""The recipient of a catalog that names none. No private key is known for it."""


@dataclass(frozen=True, slots=True)
class UnservedPayments:
    """Open payments of an environment whose chain cannot be read, so that they wait."""

    environment: Environment
    count: int
    is_simulated: bool

    @property
    def text(self) -> str:
        reason = "payments are simulated" if self.is_simulated else f"rpc_{self.environment} is not set"
        payments = "1 open payment waits" if self.count == 1 else f"{self.count} open payments wait"
        return f"{payments} in {self.environment}, because {reason}"

    @property
    def remedy(self) -> str:
        change = "Set payments to facilitator or direct, and" if self.is_simulated else "Set"
        return f"{change} rpc_{self.environment}, or run a process that has it."


@dataclass(frozen=True, slots=True)
class Storage:
    """An open database, whose tables are those of this version."""

    database: Database
    stamps: Stamps

    def list_accounts(self) -> tuple[AccountRow, ...]:
        with self.database.read() as connection:
            return list_accounts(connection)

    def count_pending(self) -> PendingPayments:
        with self.database.read() as connection:
            return count_pending(connection)

    def find_unserved(self, settings: Settings) -> Iterator[UnservedPayments]:
        """Find the payments that a process with these settings never settles."""
        with self.database.read() as connection:
            counts = count_pending_by_environment(connection)
        for environment, count in counts.items():
            if environment not in settings.environments:
                yield UnservedPayments(environment, count, settings.payments == "simulated")

    def find_account(self, environment: Environment, seller: str | None) -> AccountRow:
        """Find the account that an operator means; `ConfigurationError` if that is not one."""
        accounts = [account for account in self.list_accounts() if account.environment == environment]
        if not accounts:
            raise ConfigurationError(
                f"There is no seller in {environment} yet: run `faregate service apply catalog.toml` first; "
                "with FAREGATE_BASE_URL=service:, start the application, which does it."
            )
        matching = [
            account for account in accounts if seller in (None, account.seller_id, account.name, account.org)
        ]
        if len(matching) != 1:
            names = ", ".join(sorted(account.seller_id or account.name for account in accounts))
            unknown = (
                "" if seller is None or matching else f"There is no seller {seller!r} in {environment}. "
            )
            raise ConfigurationError(f"{unknown}Say which seller with --seller: {names}.")
        return matching[0]


@contextmanager
def open_storage(settings: Settings, *, pool_size: int = 2) -> Generator[Storage]:
    """Open the database while the block runs; `ConfigurationError` if its tables are not current."""
    with closing(Database(settings.database, pool_size=pool_size)) as database:
        if fault := find_table_fault(database):
            raise ConfigurationError(
                f"{database.name} {fault}: run `faregate service init`; with FAREGATE_BASE_URL=service:, "
                "start the application, which does it."
            )
        yield Storage(database, Stamps(database, system_clock))


def find_table_fault(database: Database) -> str:
    """Say why its tables are not those of this version; empty if they are. Raises `DatabaseError`."""
    if database.is_absent:
        return "does not exist"
    with database.read() as connection:
        if is_new(connection):
            return "has no tables"
    missing = find_missing(database)
    return f"lacks migrations {', '.join(missing)}" if missing else ""


def create_tables(settings: Settings) -> None:
    """Create the tables in a new database; another one is only brought to this version by `init`."""
    url = settings.database
    with closing(Database(url, pool_size=1)) as database, database.read() as connection:
        is_empty = is_new(connection)
    if is_empty:
        upgrade(url)


def find_missing(database: Database) -> tuple[str, ...]:
    """Return the migrations that the database lacks; `DatabaseError` if it cannot be reached."""
    with database.read() as connection:
        return find_missing_migrations(connection)


def check_recipient(settings: Settings, name: str, pay_to: str) -> None:
    """Refuse to let real money go to the address of the example; raises `ConfigurationError`."""
    if settings.payments != "simulated" and pay_to.lower() == EXAMPLE_PAY_TO.lower():
        raise ConfigurationError(
            f"The seller {name!r} has no address of its own, so payments would be lost: write `pay_to` under "
            "[seller] in the catalog, and apply it."
        )
