"""`report`: revenue and outcomes over time, on the terminal, as JSON or as a page."""

import json as jsonlib
import webbrowser
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from faregate.cli.terminal import Progress, clean, count, get_width, prints_json, style
from faregate.commands import Echo
from faregate.errors import CommandError
from faregate.merchant.client import MerchantClient
from faregate.merchant.models import ListQuery
from faregate.reports.export import format_moment, write_text
from faregate.reports.page import build_page
from faregate.reports.reader import TransactionFilter, list_transactions
from faregate.reports.records import TableRow
from faregate.reports.summary import (
    INTERVALS,
    Interval,
    Summary,
    Totals,
    format_outcomes,
    format_period,
    format_revenue,
    format_span,
    summarize,
)

DEFAULT_DAYS: Final = 30
DEFAULT_PAGE: Final = "faregate-report.html"
"""In the current folder: a browser that is installed as a snap has no access to /tmp."""
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
_LONGEST_BAR: Final = 24
_SHORTEST_BAR: Final = 6


def run_report(
    client: MerchantClient,
    echo: Echo,
    *,
    since: datetime | None,
    until: datetime | None,
    by: str | None,
    as_of: datetime | None,
    html: str,
    open: bool,
    json: bool,
    text: bool,
) -> int:
    """Print the report, or write a page to the file `html` and open it. All of it is one snapshot."""
    if (html or open) and (json or text):
        raise CommandError("--html and --open make a page: leave out --json and --text.")
    as_json = prints_json(json, text)
    summary = _read(client, since, until, by, as_of)
    if html or open:
        path = html or DEFAULT_PAGE
        write_text(path, build_page(summary, client.environment))
        echo(f"Wrote {path}: {format_span(summary)}. As of {format_moment(summary.as_of)}.")
        if open and not webbrowser.open(Path(path).absolute().as_uri()):
            echo("No web browser was found. Open the file in one.")
    elif as_json:
        echo(jsonlib.dumps(_to_json(summary, client.environment), indent=2))
    else:
        echo(_format_text(summary, client.environment))
    return 0


def _read(
    client: MerchantClient,
    since: datetime | None,
    until: datetime | None,
    by: str | None,
    as_of: datetime | None,
) -> Summary:
    end = until or as_of or datetime.now(UTC)
    begin = since or end - timedelta(days=DEFAULT_DAYS)
    if begin >= end:
        raise CommandError("--since is not before --until.")
    wanted = TransactionFilter(since=begin, until=until, details=True)
    listing = list_transactions(client, wanted, ListQuery(as_of=as_of))
    rows = list[TableRow]()
    with Progress("transactions", None) as progress:
        for row in listing.rows:
            rows.append(row)
            progress(len(rows))
    interval: Interval | None = next((interval for interval in INTERVALS if interval == by), None)
    return summarize(rows, begin, until, listing.as_of or end, interval)


def _to_json(summary: Summary, environment: str) -> dict[str, Any]:
    return {
        "environment": environment,
        "since": format_moment(summary.since),
        "until": format_moment(summary.until),
        "as_of": format_moment(summary.as_of),
        "by": summary.interval,
        "payers": summary.payers,
        **_totals_to_json(summary.totals),
        "periods": [
            {"start": format_moment(period.start), **_totals_to_json(period.totals)}
            for period in summary.periods
        ],
        "resources": [{"name": name, **_totals_to_json(totals)} for name, totals in summary.resources],
    }


def _totals_to_json(totals: Totals) -> dict[str, Any]:
    return {
        "succeeded": totals.succeeded,
        "failed": totals.failed,
        "pending": totals.pending,
        "revenue_atomic": dict(sorted(totals.revenue.items())),
    }


def _format_text(summary: Summary, environment: str) -> str:
    lines = [
        style(f"{format_span(summary)}, {environment}", "1"),
        f"As of {format_moment(summary.as_of)}.",
        "",
    ]
    if not summary.totals.count:
        return "\n".join((*lines, "No transactions."))
    lines.append(
        f"{style(format_revenue(summary.totals) or 'no revenue', '1')} from {count(summary.payers, 'payer')}"
    )
    lines.extend((format_outcomes(summary.totals), "", *_format_periods(summary)))
    if summary.resources:
        lines.extend(("", *_format_resources(summary)))
    return "\n".join(lines)


def _format_periods(summary: Summary) -> list[str]:
    names = [format_period(period.start, summary.interval) for period in summary.periods]
    name_width = max(len(summary.interval), *map(len, names))
    numbers = "  ".join(f"{head:>9}" for head in ("SUCCEEDED", "FAILED", "PENDING"))
    revenues = [format_revenue(period.totals) for period in summary.periods]
    # The asset that was sold most often has the bars; those of two assets could not be compared.
    asset = max(
        summary.assets,
        key=lambda asset: sum(asset in period.totals.revenue for period in summary.periods),
        default="",
    )
    most = max((period.totals.revenue[asset] for period in summary.periods), default=0)
    room = get_width() - name_width - len(numbers) - max(map(len, revenues)) - 6
    wide = min(_LONGEST_BAR, room) if room >= _SHORTEST_BAR else 0
    lines = [f"{summary.interval.upper():<{name_width}}  {numbers}  {'REVENUE'}"]
    for name, period, revenue in zip(names, summary.periods, revenues, strict=True):
        totals = period.totals
        cells = "  ".join(f"{count or '-':>9}" for count in (totals.succeeded, totals.failed, totals.pending))
        bar = _format_bar(totals.revenue[asset], most, wide)
        coloured = style(bar, "32") + " " * (wide - len(bar) + 1) if wide else ""
        lines.append(f"{name:<{name_width}}  {cells}  {coloured}{revenue}".rstrip())
    return lines


def _format_bar(value: int, most: int, wide: int) -> str:
    eighths = value * wide * 8 // most if most else 0
    if value and not eighths:
        eighths = 1
    return (_BLOCKS[8] * (eighths // 8) + _BLOCKS[eighths % 8]).strip()


def _format_resources(summary: Summary) -> list[str]:
    names = [clean(name) for name, _ in summary.resources]
    name_width = max(len("RESOURCE"), *map(len, names))
    lines = [f"{'RESOURCE':<{name_width}}  {'SUCCEEDED':>9}  REVENUE"]
    for name, (_, totals) in zip(names, summary.resources, strict=True):
        lines.append(f"{name:<{name_width}}  {totals.succeeded:>9}  {format_revenue(totals)}")
    return lines
