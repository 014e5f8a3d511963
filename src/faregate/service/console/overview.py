"""The first page: what was earned, what is open."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from faregate.service.console.layout import ROOT, Viewer, describe_time_span, render_page
from faregate.service.database.attention import ParkedPayment, UnsettledLoosePayment
from faregate.service.database.payment_rows import RecordedReconciliation
from faregate.service.database.reports import Ended, Revenue, add_days
from faregate.service.database.sql_store import SqlStore
from faregate.service.environment_payments import PeerStatus
from faregate.x402.tokens import TOKENS, Environment, format_price

_PERIODS: Final = (("Today", 1), ("7 days", 7), ("30 days", 30))
_MOST_DIFFERENCES: Final = 50


@dataclass(frozen=True, slots=True)
class Watched:
    """What an operator watches: the last comparison with the chain, payments to look at, and nodes."""

    compared: RecordedReconciliation | None
    parked: Sequence[ParkedPayment]
    loose: Sequence[UnsettledLoosePayment]
    nodes: Sequence[PeerStatus]


def show_overview(viewer: Viewer, store: SqlStore, revenue: Revenue, watched: Watched) -> bytes:
    """Show sums of today and of the last 7 and 30 days (UTC), what is open, and what is to be watched."""
    now = store.now()
    days = revenue.list_days(store.account, now, _PERIODS[-1][1])
    ended = [add_days(days[:length]) for _, length in _PERIODS]
    refunded = [revenue.sum_refunds(store.account, now, length) for _, length in _PERIODS]
    authorized, pending = revenue.count_open(store.account.id)
    compared = watched.compared
    differences = [] if compared is None else _list_differences(compared, store.account.id)
    return render_page(
        viewer,
        "overview.html",
        ROOT,
        "Overview",
        periods=[name for name, _ in _PERIODS],
        revenue=_list_revenue(ended, refunded, viewer.environment),
        ended=[
            {"status": "succeeded", "counts": [period.succeeded for period in ended]},
            {"status": "failed", "counts": [period.failed for period in ended]},
        ],
        authorized=authorized,
        pending=pending,
        oldest_age=None if pending.oldest_at is None else describe_time_span(now - pending.oldest_at),
        compared_at=None if compared is None else compared.finished_at,
        differences=differences[:_MOST_DIFFERENCES],
        more_differences=len(differences[_MOST_DIFFERENCES:]),
        watched=watched,
    )


def _list_revenue(
    ended: Sequence[Ended], refunded: Sequence[Counter[str]], environment: Environment
) -> list[dict[str, Any]]:
    """List what was earned in each period; of an asset with refunds, also these and what is left."""
    symbols = {
        token.address.lower(): token.symbol for (where, _), token in TOKENS.items() if where == environment
    }
    earned = [
        Counter({asset.lower(): amount for asset, amount in period.revenue.items()}) for period in ended
    ]
    rows: list[dict[str, Any]] = []
    for asset in sorted({asset for period in (*earned, *refunded) for asset in period}):
        symbol = symbols.get(asset, asset)
        sold, back = [period[asset] for period in earned], [period[asset] for period in refunded]
        kinds = [("", sold)]
        if any(back):
            remainders = [amount - taken for amount, taken in zip(sold, back, strict=True)]
            kinds += [(", refunded", back), (", after refunds", remainders)]
        rows += [
            {"symbol": symbol + kind, "sums": [_format_sum(amount, symbol) for amount in sums]}
            for kind, sums in kinds
        ]
    return rows


def _format_sum(amount: int, symbol: str) -> str:
    """Write an amount, which is negative where more was refunded than earned."""
    return f"{'-' if amount < 0 else ''}{format_price(abs(amount), symbol)}"


def _list_differences(compared: RecordedReconciliation, account: int) -> list[dict[str, Any]]:
    """List what the last comparison with the chain has named of this account."""
    return [difference for difference in compared.result["named"] if difference["account"] == account]
