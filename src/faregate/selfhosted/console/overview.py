"""The first page: what was earned, what is open."""

from typing import Final

from faregate.selfhosted.console.layout import (
    ROOT,
    Column,
    Viewer,
    build_page,
    build_table,
    describe_time_span,
)
from faregate.selfhosted.console.markup import Child, Markup, build, join
from faregate.selfhosted.database.reports import Ended, PendingPayments, Revenue, add_days
from faregate.selfhosted.database.store import SqlStore
from faregate.service.records import Status
from faregate.x402.tokens import TOKENS, Environment, format_price

_PERIODS: Final = (("Today", 1), ("7 days", 7), ("30 days", 30))
_SUMS: Final = tuple(Column(name, is_number=True) for name, _ in _PERIODS)


def show_overview(viewer: Viewer, store: SqlStore, revenue: Revenue) -> bytes:
    """Show sums of today and of the last 7 and 30 days (UTC), and what is open."""
    now = store.now()
    days = revenue.list_days(store.account.id, now, _PERIODS[-1][1])
    periods = [add_days(days[:length]) for _, length in _PERIODS]
    authorized, pending = revenue.count_open(store.account.id)
    oldest = None
    if pending.oldest_at is not None:
        oldest = (
            f"The oldest pending payment was submitted {describe_time_span(now - pending.oldest_at)} ago."
        )
    return build_page(
        viewer,
        ROOT,
        "Overview",
        build("h2", "Revenue"),
        build_table(
            "Revenue",
            (Column("Asset"), *_SUMS),
            _list_revenue(periods, viewer.environment),
            "Nothing was earned.",
        ),
        build("h2", "Ended"),
        build_table("Ended", (Column("Status"), *_SUMS), _list_counts(periods), ""),
        build("p", "Days begin at midnight UTC; today counts as one of them.", class_="faint"),
        build("h2", "Open now"),
        _build_open(authorized, pending),
        oldest and build("p", oldest),
    )


def _list_revenue(periods: list[Ended], environment: Environment) -> list[tuple[Child, ...]]:
    symbols = {
        token.address.lower(): token.symbol for (where, _), token in TOKENS.items() if where == environment
    }
    found = sorted({asset for period in periods for asset in period.revenue})
    rows: list[tuple[Child, ...]] = []
    for asset in found:
        symbol = symbols.get(asset.lower(), asset)
        rows.append((symbol, *(format_price(period.revenue[asset], symbol) for period in periods)))
    return rows


def _list_counts(periods: list[Ended]) -> list[tuple[Child, ...]]:
    return [
        (_link_to("succeeded"), *(period.succeeded for period in periods)),
        (_link_to("failed"), *(period.failed for period in periods)),
    ]


def _build_open(authorized: int, pending: PendingPayments) -> Markup:
    shown: tuple[tuple[Status, int, str], ...] = (
        ("authorized", authorized, "the seller has not reported the work's end"),
        ("settling", pending.settling, "the first attempt is under way"),
        ("reconciling", pending.reconciling, "sent or maybe sent; the chain has not proved the end yet"),
    )
    items = [
        build("li", build("b", count), " ", _link_to(status), " ", build("span", about, class_="faint"))
        for status, count, about in shown
    ]
    return build("ul", join(*items), class_="open")


def _link_to(status: Status) -> Markup:
    return build("a", status, href=f"{ROOT}/payments?status={status}", class_=f"status is-{status}")
