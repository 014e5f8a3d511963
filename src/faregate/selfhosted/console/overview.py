"""The first page: what was earned, what is open."""

from typing import Any, Final

from faregate.selfhosted.console.layout import (
    ROOT,
    Column,
    Viewer,
    build_page,
    build_table,
    build_time,
    describe_time_span,
)
from faregate.selfhosted.console.markup import Child, Markup, build, join
from faregate.selfhosted.database.payments import RecordedReconciliation
from faregate.selfhosted.database.reports import Ended, PendingPayments, Revenue, add_days
from faregate.selfhosted.database.store import SqlStore
from faregate.service.records import Status
from faregate.x402.tokens import TOKENS, Environment, format_price

_PERIODS: Final = (("Today", 1), ("7 days", 7), ("30 days", 30))
_DIFFERENCES: Final = (Column("Difference"), Column("Payment"), Column("Books"), Column("Chain"))
_MOST_DIFFERENCES: Final = 50
_SUMS: Final = tuple(Column(name, is_number=True) for name, _ in _PERIODS)


def show_overview(
    viewer: Viewer, store: SqlStore, revenue: Revenue, compared: RecordedReconciliation | None
) -> bytes:
    """Show sums of today and of the last 7 and 30 days (UTC), what is open, and what differs on the chain."""
    now = store.now()
    days = revenue.list_days(store.account, now, _PERIODS[-1][1])
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
        *_build_comparison(viewer, compared, store.account.id),
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


def _build_comparison(viewer: Viewer, compared: RecordedReconciliation | None, account: int) -> list[Markup]:
    """Show what the last comparison with the chain has named of this account."""
    title = build("h2", "Books and chain")
    if compared is None:
        command = build("code", "faregate service reconcile")
        absent = [title, build("p", "They were not compared yet: run ", command, ".")]
        return [] if viewer.is_simulated else absent
    named = [one for one in compared.result["named"] if one["account"] == account]
    rows: list[tuple[Child, ...]] = [
        (one["kind"], _link_to_difference(one), one["books"], one["chain"])
        for one in named[:_MOST_DIFFERENCES]
    ]
    more = len(named) - len(rows)
    return [
        title,
        build("p", "Compared ", build_time(compared.finished_at), " UTC."),
        build_table("Differences", _DIFFERENCES, rows, "There are no differences."),
        *([build("p", f"{more} more: faregate service reconcile lists all.")] if more else []),
    ]


def _link_to_difference(named: dict[str, Any]) -> Child:
    if named["transaction"] is None:
        return build("code", named["transaction_hash"])
    return build("a", build("code", named["transaction"]), href=f"{ROOT}/payments/{named['transaction']}")


def _link_to(status: Status) -> Markup:
    return build("a", status, href=f"{ROOT}/payments?status={status}", class_=f"status is-{status}")
