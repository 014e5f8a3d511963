"""What operators ask the database: open payments, and all transactions in their order."""

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, and_, bindparam, func, or_, select, text

from faregate.selfhosted.database.clock import ACCOUNT
from faregate.selfhosted.database.engine import Database
from faregate.selfhosted.database.schema import accounts, payers, resources, revisions, transactions
from faregate.selfhosted.database.transactions import T
from faregate.selfhosted.database.types import to_datetime
from faregate.service.records import Status
from faregate.x402.tokens import Environment

BATCH: Final = 1000
_IS_OPEN: Final = and_(T.next_attempt_at.is_not(None), T.finished_at.is_(None), T.submitted_at.is_not(None))
_COUNT_OPEN: Final = select(func.count(), func.count(T.reconciling_at), func.min(T.submitted_at)).where(
    _IS_OPEN
)
_COUNT_OPEN_BY_ENVIRONMENT: Final = (
    select(accounts.c.environment, func.count())
    .join(transactions, T.account == accounts.c.id)
    .where(_IS_OPEN)
    .group_by(accounts.c.environment)
)
_READ_CLOCK: Final = text("SELECT clock_timestamp()")
_LIST_OPEN: Final = (
    select(T.id)
    .where(T.account == ACCOUNT, _IS_OPEN, T.id > bindparam("after"))
    .order_by(T.id)
    .limit(bindparam("most"))
)
_EXPORT: Final = (
    select(
        T.id,
        T.created_at,
        T.settling_at,
        T.reconciling_at,
        T.finished_at,
        T.final_status,
        T.amount,
        T.pay_to,
        T.url,
        T.transaction_hash,
        T.revision,
        payers.c.identifier,
        resources.c.key,
        revisions.c.asset,
        revisions.c.chain,
    )
    .join(payers, (payers.c.account == T.account) & (payers.c.address == T.payer))
    .join(resources, (resources.c.account == T.account) & (resources.c.id == T.resource))
    .join(revisions, (revisions.c.account == T.account) & (revisions.c.id == T.revision))
    .where(
        T.account == ACCOUNT,
        or_(
            T.created_at > bindparam("created"),
            and_(T.created_at == bindparam("created"), T.id > bindparam("after")),
        ),
    )
    .order_by(T.created_at, T.id)
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class ExportedTransaction:
    """A transaction as it is told to accountants. `amount` is in atomic units of `asset`."""

    id: str
    status: Status
    created_at: datetime
    settled_at: datetime | None
    payer: str
    pay_to: str
    resource: str
    revision: str
    url: str
    chain: int
    asset: str
    amount: int
    transaction_hash: str | None


@dataclass(frozen=True, slots=True)
class OpenPaymentCounts:
    """Submitted payments that have not ended; `oldest_at` is when the first was submitted."""

    settling: int
    reconciling: int
    oldest_at: datetime | None


def count_open_payments(connection: Connection) -> OpenPaymentCounts:
    count, reconciling, oldest = connection.execute(_COUNT_OPEN).one()
    return OpenPaymentCounts(
        count - reconciling, reconciling, None if oldest is None else to_datetime(oldest)
    )


def count_open_by_environment(connection: Connection) -> dict[Environment, int]:
    rows = connection.execute(_COUNT_OPEN_BY_ENVIRONMENT).all()
    return {row[0]: row[1] for row in rows}


def read_database_clock(database: Database) -> datetime | None:
    """Return the time of the machine of the database; None for SQLite, which is on this one."""
    if database.is_sqlite:
        return None
    with database.read() as connection:
        theirs: datetime = connection.execute(_READ_CLOCK).scalar_one()
    return theirs


def list_open_payments(database: Database, account: int) -> Generator[str]:
    """List the ids of submitted payments that have not ended, a batch at a time."""
    after = ""
    while True:
        with database.read() as connection:
            keys = {"of_account": account, "after": after, "most": BATCH}
            found = connection.execute(_LIST_OPEN, keys).scalars().all()
        yield from found
        if len(found) < BATCH:
            return
        after = found[-1]


def export_transactions(database: Database, account: int) -> Generator[ExportedTransaction]:
    """Read all transactions of an account, oldest first, in batches. Each holds a connection only shortly."""
    created, after = -1, ""
    while True:
        with database.read() as connection:
            keys = {"of_account": account, "created": created, "after": after, "most": BATCH}
            found = connection.execute(_EXPORT, keys).all()
        yield from (_to_exported(row) for row in found)
        if len(found) < BATCH:
            return
        created, after = found[-1].created_at, found[-1].id


def _to_exported(row: Any) -> ExportedTransaction:
    is_settled = row.final_status == "succeeded"
    return ExportedTransaction(
        id=row.id,
        status=_read_status(row),
        created_at=to_datetime(row.created_at),
        settled_at=to_datetime(row.finished_at) if is_settled else None,
        payer=row.identifier,
        pay_to=row.pay_to,
        resource=row.key,
        revision=row.revision,
        url=row.url,
        chain=row.chain,
        asset=row.asset,
        amount=row.amount,
        transaction_hash=row.transaction_hash if is_settled else None,
    )


def _read_status(row: Any) -> Status:
    if row.final_status is not None:
        status: Status = row.final_status
        return status
    if row.reconciling_at is not None:
        return "reconciling"
    return "authorized" if row.settling_at is None else "settling"
