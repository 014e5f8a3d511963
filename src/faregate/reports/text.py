"""Say sums, times and spans of a summary for people. Pure."""

from datetime import datetime

from faregate.reports.summary import Step, Summary, Totals
from faregate.x402.tokens import CURRENCIES, format_price


def format_revenue(totals: Totals) -> str:
    """`0.85 USDC + 0.11 EURC`; "" without revenue."""
    return " + ".join(
        format_revenue_of(asset, totals)
        for asset in sorted(totals.revenue, reverse=True)
        if totals.revenue[asset]
    )


def format_revenue_of(asset: str, totals: Totals) -> str:
    """The revenue in one asset. The decimals of an unknown one are unknown."""
    atomic = totals.revenue[asset]
    return format_price(atomic, asset) if asset in CURRENCIES else f"{atomic} atomic {asset}"


def format_outcomes(totals: Totals) -> str:
    """`38 of 48 finished transactions succeeded (79 %), 10 failed. 22 pending.`"""
    finished = totals.succeeded + totals.failed
    share = f" ({round(100 * totals.succeeded / finished)} %)" if finished else ""
    pending = f" {totals.pending:,} pending." if totals.pending else ""
    noun = "transaction" if finished == 1 else "transactions"
    succeeded = f"{totals.succeeded:,} of {finished:,} finished {noun} succeeded{share}"
    return f"{succeeded}, {totals.failed:,} failed.{pending}"


def format_period(start: datetime, step: Step) -> str:
    """The name of a period: `2026-11-23`, `11-23 07:00`, `2026-11`."""
    match step:
        case "hour":
            return start.strftime("%m-%d %H:%M")
        case "month":
            return start.strftime("%Y-%m")
        case _:
            return start.strftime("%Y-%m-%d")


def format_span(summary: Summary) -> str:
    """`Revenue and outcomes, 2026-10-24 07:11 to 2026-11-23 07:11 UTC`"""
    since, until = (one.strftime("%Y-%m-%d %H:%M") for one in (summary.since, summary.until))
    return f"Revenue and outcomes, {since} to {until} UTC"
