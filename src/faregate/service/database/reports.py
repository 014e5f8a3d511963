"""What operators ask the database: pending payments, all transactions in their order, and revenue."""

from collections import Counter, OrderedDict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Connection,
    Text,
    and_,
    bindparam,
    cast,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.sql.functions import aggregate_strings

from faregate.rules.records import Status
from faregate.service.database.accounts import AccountRow
from faregate.service.database.clock import ACCOUNT, Stamps
from faregate.service.database.engine import Database
from faregate.service.database.refunds import list_refunds_of_sales
from faregate.service.database.schema import accounts, payers, refunds, resources, revisions, transactions
from faregate.service.database.transactions import T
from faregate.service.database.types import Amount, sum_amounts, to_datetime, to_microseconds
from faregate.x402.tokens import Environment

BATCH: Final = 1000
_IS_PENDING: Final = and_(
    T.next_attempt_at.is_not(None), T.finished_at.is_(None), T.submitted_at.is_not(None)
)
_COUNT_PENDING: Final = select(func.count(), func.count(T.reconciling_at), func.min(T.submitted_at)).where(
    _IS_PENDING
)
_COUNT_PARKED: Final = select(func.count()).where(T.parked_at.is_not(None))
_COUNT_PENDING_BY_ENVIRONMENT: Final = (
    select(accounts.c.environment, func.count())
    .join(transactions, T.account == accounts.c.id)
    .where(_IS_PENDING)
    .group_by(accounts.c.environment)
)
_READ_CLOCK: Final = text("SELECT clock_timestamp()")
_LIST_PENDING: Final = (
    select(T.id)
    .where(T.account == ACCOUNT, or_(_IS_PENDING, T.parked_at.is_not(None)), T.id > bindparam("after"))
    .order_by(T.id)
    .limit(bindparam("most"))
)
_SETTLED: Final = func.coalesce(T.used_amount, T.amount, type_=Amount()).label("amount")
"""What a payment settles: the price, or what was used of the maximum."""
_DAY: Final = timedelta(days=1)
_REMEMBERED_DAYS: Final = 10_000
_ENDED: Final = (
    # SQLite cannot add numbers of 30 digits, so equal amounts are counted. A seller has few prices.
    select(T.final_status, T.asset, _SETTLED, func.count().label("times"))
    .where(
        T.account == ACCOUNT,
        T.finished_at >= bindparam("begin", type_=BigInteger()),
        T.finished_at < bindparam("end", type_=BigInteger()),
    )
    .group_by(T.final_status, T.asset, _SETTLED)
)
_COUNT_OPEN: Final = select(func.count()).where(T.account == ACCOUNT, T.finished_at.is_(None))
# SQLite cannot add numbers of 30 digits: Python does.
_REFUNDED: Final = (
    select(aggregate_strings(cast(refunds.c.amount, Text), ","))
    .where(refunds.c.account == T.account, refunds.c.transaction == T.id, refunds.c.removed_at.is_(None))
    .scalar_subquery()
)
_EXPORT: Final = (
    select(
        T.id,
        T.created_at,
        T.settling_at,
        T.reconciling_at,
        T.finished_at,
        T.final_status,
        _SETTLED,
        T.pay_to,
        T.url,
        T.transaction_hash,
        T.revision,
        payers.c.identifier,
        resources.c.key,
        revisions.c.asset,
        revisions.c.chain,
        _REFUNDED.label("refunded"),
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
    """A transaction as exported for accountants: one row, whose columns are these fields in their order."""

    id: str
    status: Status
    created_at: datetime
    settled_at: datetime | None
    payer: str
    pay_to: str
    resource: str
    revision: str
    url: str
    network: str
    asset: str
    amount_atomic: int
    transaction_hash: str | None
    refunded_atomic: int


@dataclass(frozen=True, slots=True)
class PendingPayments:
    """Submitted payments that have not ended; `oldest_at` is when the first was submitted.

    Those that are parked are counted apart.
    """

    settling: int
    reconciling: int
    oldest_at: datetime | None
    parked: int = 0


def count_pending(connection: Connection, account: int | None = None) -> PendingPayments:
    """Count the pending payments of this account, or of all."""
    of_account = () if account is None else (T.account == ACCOUNT,)
    keys = {"of_account": account}
    count, reconciling, oldest = connection.execute(_COUNT_PENDING.where(*of_account), keys).one()
    parked: int = connection.execute(_COUNT_PARKED.where(*of_account), keys).scalar_one()
    oldest_at = None if oldest is None else to_datetime(oldest)
    return PendingPayments(count - reconciling, reconciling, oldest_at, parked)


def count_pending_by_environment(connection: Connection) -> dict[Environment, int]:
    rows = connection.execute(_COUNT_PENDING_BY_ENVIRONMENT).all()
    return {row[0]: row[1] for row in rows}


def read_database_clock(database: Database) -> datetime | None:
    """Return the time of the machine of the database; None for SQLite, which is on this one."""
    if database.is_sqlite:
        return None
    with database.read() as connection:
        theirs: datetime = connection.execute(_READ_CLOCK).scalar_one()
    return theirs


def list_pending_payments(database: Database, account: int) -> Generator[str]:
    """List the ids of submitted payments that have not ended, parked ones too, a batch at a time."""
    after = ""
    while True:
        with database.read() as connection:
            keys = {"of_account": account, "after": after, "most": BATCH}
            ids = connection.execute(_LIST_PENDING, keys).scalars().all()
        yield from ids
        if len(ids) < BATCH:
            return
        after = ids[-1]


def export_transactions(database: Database, account: int) -> Generator[ExportedTransaction]:
    """Read all transactions of an account, oldest first, in batches. Each holds a connection only shortly."""
    created, after = -1, ""
    while True:
        with database.read() as connection:
            keys = {"of_account": account, "created": created, "after": after, "most": BATCH}
            rows = connection.execute(_EXPORT, keys).all()
        yield from (_to_exported(row) for row in rows)
        if len(rows) < BATCH:
            return
        created, after = rows[-1].created_at, rows[-1].id


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
        network=f"eip155:{row.chain}",
        asset=row.asset,
        amount_atomic=row.amount,
        transaction_hash=row.transaction_hash if is_settled else None,
        refunded_atomic=sum_amounts(row.refunded),
    )


def _read_status(row: Any) -> Status:
    if row.final_status is not None:
        status: Status = row.final_status
        return status
    if row.reconciling_at is not None:
        return "reconciling"
    return "authorized" if row.settling_at is None else "settling"


# Revenue


@dataclass(frozen=True, slots=True)
class Ended:
    """Transactions that ended in some time. `revenue` is in atomic units by token address."""

    succeeded: int = 0
    failed: int = 0
    revenue: Counter[str] = field(default_factory=Counter[str])


class Revenue:
    """What was sold and what failed, by day (UTC), of all accounts of one database.

    Days that are over cannot change: the account's cut-off time (`clock.py`) is moved to midnight first, as
    for a list of that moment. They are summed once and remembered, so that only today is summed again.
    Thread-safe: at worst a day is summed twice.
    """

    def __init__(self, database: Database, stamps: Stamps) -> None:
        self._database = database
        self._stamps = stamps
        self._known: OrderedDict[tuple[str, int, datetime], Ended] = OrderedDict()

    def list_days(self, account: AccountRow, now: datetime, days: int) -> list[Ended]:
        """Sum the last days of this account, today first. Each is one short statement."""
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        self._stamps.fix_snapshot(account.id, today)
        past = [self._get(account, today - number * _DAY) for number in range(1, days)]
        return [self._sum(account.id, today), *past]

    def _get(self, account: AccountRow, day: datetime) -> Ended:
        key = account.generation, account.id, day
        report = self._known.get(key)
        if report is None:
            report = self._known[key] = self._sum(account.id, day)
            while len(self._known) > _REMEMBERED_DAYS:
                self._known.popitem(last=False)
        return report

    def _sum(self, account: int, day: datetime) -> Ended:
        keys = {
            "of_account": account,
            "begin": to_microseconds(day),
            "end": to_microseconds(day + _DAY),
        }
        with self._database.read() as connection:
            return _build_ended(connection.execute(_ENDED, keys))

    def sum_refunds(self, account: AccountRow, now: datetime, days: int) -> Counter[str]:
        """Sum what was recorded in the last days as refunded of sales, by token address in lower case.

        Not remembered: a record of any day may be removed.
        """
        begin = now.replace(hour=0, minute=0, second=0, microsecond=0) - (days - 1) * _DAY
        refunded = Counter[str]()
        for refund in list_refunds_of_sales(self._database, account.id, to_microseconds(begin)):
            refunded[refund.asset] += refund.amount
        return refunded

    def count_open(self, account: int) -> tuple[int, PendingPayments]:
        """Count the transactions that are authorized and not more, now; and those that are pending."""
        with self._database.read() as connection:
            pending = count_pending(connection, account)
            every: int = connection.execute(_COUNT_OPEN, {"of_account": account}).scalar_one()
        # Two statements see two moments: a payment may end between them.
        return max(0, every - pending.settling - pending.reconciling - pending.parked), pending


def add_days(days: Iterable[Ended]) -> Ended:
    succeeded, failed, revenue = 0, 0, Counter[str]()
    for day in days:
        succeeded += day.succeeded
        failed += day.failed
        revenue.update(day.revenue)
    return Ended(succeeded, failed, revenue)


def _build_ended(rows: Iterable[Any]) -> Ended:
    counts, revenue = Counter[str](), Counter[str]()
    for row in rows:
        counts[row.final_status] += row.times
        if row.final_status == "succeeded":
            revenue[row.asset] += row.amount * row.times
    return Ended(counts["succeeded"], counts["failed"], revenue)
