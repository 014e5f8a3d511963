"""What was sold and what failed, by day (UTC), in sums that stay fast.

Days that are over cannot change: the account's fence is moved to midnight first, as for a list of that
moment. They are summed once and remembered, so that only today is summed again.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import BigInteger, bindparam, func, select

from faregate.selfhosted.database.clock import ACCOUNT, Stamps
from faregate.selfhosted.database.engine import Database
from faregate.selfhosted.database.transactions import T
from faregate.selfhosted.database.types import to_datetime, to_microseconds

_DAY: Final = timedelta(days=1)
_REMEMBERED_DAYS: Final = 10_000
_ENDED: Final = (
    # SQLite cannot add numbers of 30 digits, so equal amounts are counted. A seller has few prices.
    select(T.final_status, T.asset, T.amount, func.count().label("times"))
    .where(
        T.account == ACCOUNT,
        T.finished_at >= bindparam("begin", type_=BigInteger()),
        T.finished_at < bindparam("end", type_=BigInteger()),
    )
    .group_by(T.final_status, T.asset, T.amount)
)
_PENDING: Final = (
    T.account == ACCOUNT,
    T.next_attempt_at.is_not(None),
    T.finished_at.is_(None),
    T.submitted_at.is_not(None),
)
_COUNT_PENDING: Final = select(func.count(), func.count(T.reconciling_at), func.min(T.submitted_at)).where(
    *_PENDING
)
_COUNT_OPEN: Final = select(func.count()).where(T.account == ACCOUNT, T.finished_at.is_(None))


@dataclass(frozen=True, slots=True)
class Ended:
    """Transactions that ended in some time. `revenue` is in atomic units by token address."""

    succeeded: int = 0
    failed: int = 0
    revenue: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """Transactions that have not ended. `oldest_at` is when the first pending payment was submitted."""

    authorized: int
    settling: int
    reconciling: int
    oldest_at: datetime | None


class Revenue:
    """Sums of all accounts of one database. Thread-safe: at worst a day is summed twice."""

    def __init__(self, database: Database, stamps: Stamps) -> None:
        self._database = database
        self._stamps = stamps
        self._known: OrderedDict[tuple[int, datetime], Ended] = OrderedDict()

    def list_days(self, account: int, now: datetime, days: int) -> list[Ended]:
        """Sum the last days of this account, today first. Each is one short statement."""
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        self._stamps.fix_snapshot(account, today)
        past = [self._get(account, today - number * _DAY) for number in range(1, days)]
        return [self._sum(account, today), *past]

    def _get(self, account: int, day: datetime) -> Ended:
        found = self._known.get((account, day))
        if found is None:
            found = self._known[account, day] = self._sum(account, day)
            while len(self._known) > _REMEMBERED_DAYS:
                self._known.popitem(last=False)
        return found

    def _sum(self, account: int, day: datetime) -> Ended:
        keys = {
            "of_account": account,
            "begin": to_microseconds(day),
            "end": to_microseconds(day + _DAY),
        }
        with self._database.read() as connection:
            return _build_ended(connection.execute(_ENDED, keys))

    def count_open(self, account: int) -> OpenTransactions:
        """Count what has not ended, now."""
        keys = {"of_account": account}
        with self._database.read() as connection:
            pending, reconciling, oldest = connection.execute(_COUNT_PENDING, keys).one()
            every: int = connection.execute(_COUNT_OPEN, keys).scalar_one()
        return OpenTransactions(
            authorized=max(0, every - pending),
            settling=pending - reconciling,
            reconciling=reconciling,
            oldest_at=None if oldest is None else to_datetime(oldest),
        )


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
