"""Sum transactions over time: outcomes, and revenue by asset; and say the sums. Pure.

A transaction belongs to the period in which it was created, whenever it settles. Periods are UTC.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from faregate.errors import CommandError
from faregate.reports.records import TableRow
from faregate.x402.tokens import format_price

Interval = Literal["hour", "day", "week", "month"]
INTERVALS: Final[tuple[Interval, ...]] = ("hour", "day", "week", "month")
MAX_PERIODS: Final = 400
_UNKNOWN_ASSET: Final = "?"


@dataclass(slots=True)
class Totals:
    """Outcomes and revenue of some transactions. `revenue` is in atomic units by asset."""

    succeeded: int = 0
    failed: int = 0
    pending: int = 0
    revenue: Counter[str] = field(default_factory=Counter[str])

    def add(self, row: TableRow) -> None:
        """Count a transaction. Whatever is neither `succeeded` nor `failed` is pending."""
        if row["status"] == "failed":
            self.failed += 1
        elif row["status"] != "succeeded":
            self.pending += 1
        else:
            self.succeeded += 1
            settled = row["settled_atomic"]
            if isinstance(settled, int):
                self.revenue[str(row["asset"] or _UNKNOWN_ASSET)] += settled

    @property
    def count(self) -> int:
        return self.succeeded + self.failed + self.pending


@dataclass(frozen=True, slots=True)
class Period:
    """A period from `start` to the next one."""

    start: datetime
    totals: Totals


@dataclass(frozen=True, slots=True)
class Summary:
    """All transactions from `since` to `until`.

    `payers` is how many paid. `resources` are by name, the best selling first.
    """

    since: datetime
    until: datetime
    as_of: datetime
    interval: Interval
    totals: Totals
    payers: int
    periods: tuple[Period, ...]
    resources: tuple[tuple[str, Totals], ...]

    @property
    def assets(self) -> list[str]:
        return sorted(self.totals.revenue)


def summarize(
    rows: Iterable[TableRow],
    since: datetime,
    until: datetime | None,
    as_of: datetime,
    interval: Interval | None,
) -> Summary:
    """Sum rows with the columns of their receipts. Raises `CommandError` for too many periods.

    There are no periods before the first transaction. Without `interval`, the length of time decides.
    """
    totals, payers = Totals(), set[object]()
    resources = dict[str, Totals]()
    created = list[tuple[datetime, TableRow]]()
    for row in rows:
        moment = row["created_at"]
        totals.add(row)
        if row["status"] == "succeeded":
            payers.add(row["payer"])
        if row["resource_name"]:
            resources.setdefault(str(row["resource_name"]), Totals()).add(row)
        if isinstance(moment, datetime):
            created.append((moment.astimezone(UTC), row))
    end = (until or as_of).astimezone(UTC)
    begin = max(since.astimezone(UTC), min((moment for moment, _ in created), default=since))
    chosen = interval or _choose_interval(end - begin)
    by_moment = {start: Totals() for start in _iterate_starts(begin, end, chosen)}
    for moment, row in created:
        by_moment.setdefault(_START[chosen](moment), Totals()).add(row)
    periods = tuple(Period(start, period_totals) for start, period_totals in sorted(by_moment.items()))
    best = sorted(resources.items(), key=lambda item: (-item[1].succeeded, item[0]))
    return Summary(
        since.astimezone(UTC), end, as_of, chosen, totals, len(payers - {None}), periods, tuple(best)
    )


def _choose_interval(length: timedelta) -> Interval:
    if length <= timedelta(days=2):
        return "hour"
    if length <= timedelta(days=92):
        return "day"
    return "week" if length <= timedelta(days=2 * 366) else "month"


def _start_of_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _start_of_day(moment: datetime) -> datetime:
    return _start_of_hour(moment).replace(hour=0)


def _start_of_week(moment: datetime) -> datetime:
    return _start_of_day(moment) - timedelta(days=moment.weekday())


def _start_of_month(moment: datetime) -> datetime:
    return _start_of_day(moment).replace(day=1)


_START: Final[dict[Interval, Callable[[datetime], datetime]]] = {
    "hour": _start_of_hour,
    "day": _start_of_day,
    "week": _start_of_week,
    "month": _start_of_month,
}
# More than one period from a start and less than two: in UTC no day is longer than another.
_BEYOND: Final[dict[Interval, timedelta]] = {
    "hour": timedelta(minutes=90),
    "day": timedelta(hours=36),
    "week": timedelta(days=10),
    "month": timedelta(days=35),
}


def _iterate_starts(begin: datetime, end: datetime, interval: Interval) -> Iterable[datetime]:
    starts = list[datetime]()
    start = _START[interval](begin)
    while start < end:
        starts.append(start)
        if len(starts) > MAX_PERIODS:
            raise CommandError(
                f"These are more than {MAX_PERIODS} periods: use a longer --by or a later --since."
            )
        start = _START[interval](start + _BEYOND[interval])
    return starts


def format_revenue(totals: Totals) -> str:
    """`0.85 USDC + 0.11 EURC`; "" without revenue."""
    return " + ".join(
        format_revenue_of(asset, totals)
        for asset in sorted(totals.revenue, reverse=True)
        if totals.revenue[asset]
    )


def format_revenue_of(asset: str, totals: Totals) -> str:
    return format_price(totals.revenue[asset], asset)


def format_outcomes(totals: Totals) -> str:
    """`38 of 48 finished transactions succeeded (79 %), 10 failed. 22 pending.`"""
    finished = totals.succeeded + totals.failed
    share = f" ({round(100 * totals.succeeded / finished)} %)" if finished else ""
    pending = f" {totals.pending:,} pending." if totals.pending else ""
    noun = "transaction" if finished == 1 else "transactions"
    succeeded = f"{totals.succeeded:,} of {finished:,} finished {noun} succeeded{share}"
    return f"{succeeded}, {totals.failed:,} failed.{pending}"


def format_period(start: datetime, interval: Interval) -> str:
    """The name of a period: `2026-11-23`, `11-23 07:00`, `2026-11`."""
    match interval:
        case "hour":
            return start.strftime("%m-%d %H:%M")
        case "month":
            return start.strftime("%Y-%m")
        case _:
            return start.strftime("%Y-%m-%d")


def format_span(summary: Summary) -> str:
    """`Revenue and outcomes, 2026-10-24 07:11 to 2026-11-23 07:11 UTC`"""
    since, until = (time.strftime("%Y-%m-%d %H:%M") for time in (summary.since, summary.until))
    return f"Revenue and outcomes, {since} to {until} UTC"
