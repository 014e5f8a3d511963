"""The report as one HTML page: no script, no external resource, light and dark. Pure.

The content security policy allows the page's own style by its hash and nothing else, so that a name from
the service cannot do anything even if it were not escaped.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from faregate.reports.export import format_moment
from faregate.reports.summary import (
    Period,
    Summary,
    Totals,
    format_outcomes,
    format_period,
    format_revenue,
    format_revenue_of,
    format_span,
)

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --page: #fff; --line: #d0d7de;
  --good: #1a7f37; --bad: #cf222e; --open: #9a6700; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e6edf3; --soft: #9198a1; --page: #0d1117;
  --line: #3d444d;
  --good: #3fb950; --bad: #ff7b72; --open: #d29922; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 3rem;
  background: var(--page); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; line-height: 1.3; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; }
.soft { color: var(--soft); font-size: .875rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
  gap: .75rem; margin: 1.25rem 0 .5rem; }
dl div { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .75rem; }
dt { color: var(--soft); font-size: .875rem; }
dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: 8rem; border-bottom: 1px solid var(--line); }
.ends { display: flex; justify-content: space-between; gap: 1rem; }
.good { fill: var(--good); } .bad { fill: var(--bad); } .open { fill: var(--open); }
.key svg { display: inline-block; width: .75rem; height: .75rem; border: 0; margin: 0 .25rem 0 .75rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .5rem;
  text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal; }
thead th { color: var(--soft); font-size: .875rem; font-weight: 600; }
tbody th { font-weight: 400; }
@media (max-width: 30rem) {
  thead th, th, td { padding: .25rem .15rem; font-size: .75rem; } dd { font-size: 1.1rem; }
}
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEIGHT: Final = 1000
_BAR: Final = 8
_GAP: Final = 2


def build_page(summary: Summary, environment: str) -> str:
    """The whole page. `environment` is test or live."""
    title = "Revenue and outcomes"
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" '
            f"content=\"default-src 'none'; style-src 'sha256-{_HASH}'\">",
            '<meta name="viewport" content="width=device-width">',
            f"<title>{title}, {escape(environment)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{title}</h1>",
            f'<p class="soft">{escape(format_span(summary).partition(", ")[2])}, {escape(environment)} '
            f"environment. As of {format_moment(summary.as_of)}.</p>",
            *_build_body(summary),
            "</main>",
            "</body>",
            "</html>",
            "",
        )
    )


def _build_body(summary: Summary) -> Iterator[str]:
    totals = summary.totals
    if not totals.count:
        yield "<p>There were no transactions in this time.</p>"
        return
    yield "<dl>"
    for asset in summary.assets:
        yield _build_figure(f"Revenue, {asset}", format_revenue_of(asset, totals))
    yield _build_figure("Succeeded", f"{totals.succeeded:,}")
    yield _build_figure("Failed", f"{totals.failed:,}")
    yield _build_figure("Pending", f"{totals.pending:,}")
    yield _build_figure("Payers", f"{summary.payers:,}")
    yield "</dl>"
    yield f"<p>{format_outcomes(totals)}</p>"
    for asset in summary.assets:
        yield from _build_revenue_chart(summary, asset)
    yield from _build_outcome_chart(summary)
    if summary.resources:
        yield "<h2>By resource</h2>"
        yield from _build_table("Resource", summary.resources, unpaid=False)
    yield f"<h2>By {summary.step}</h2>"
    yield from _build_table(
        summary.step.capitalize(),
        [(format_period(period.start, summary.step), period.totals) for period in summary.periods],
    )
    yield '<p class="soft">A transaction counts in the period in which it was created. Times are UTC.</p>'


def _build_figure(name: str, value: str) -> str:
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"


def _build_revenue_chart(summary: Summary, asset: str) -> Iterator[str]:
    values = [period.totals.revenue[asset] for period in summary.periods]
    most = max(values)
    best = format_revenue_of(asset, summary.periods[values.index(most)].totals)
    yield f"<h2>Revenue in {escape(asset)}, by {summary.step}</h2>"
    yield f'<p class="soft">The highest bar is {escape(best)}.</p>'
    bars = [
        _build_bar(
            place,
            0,
            value,
            most,
            "good",
            f"{_name(summary, period)}: {format_revenue_of(asset, period.totals)}",
        )
        for place, (value, period) in enumerate(zip(values, summary.periods, strict=True))
    ]
    yield from _build_chart(
        summary, bars, f"Revenue in {asset} by {summary.step}; the table below has the numbers"
    )


def _build_outcome_chart(summary: Summary) -> Iterator[str]:
    most = max(period.totals.count for period in summary.periods)
    yield f"<h2>Transactions, by {summary.step}</h2>"
    yield f'<p class="soft">The highest bar is {most:,}.</p>'
    bars = list[str]()
    for place, period in enumerate(summary.periods):
        totals, below = period.totals, 0
        for number, kind, word in (
            (totals.succeeded, "good", "succeeded"),
            (totals.failed, "bad", "failed"),
            (totals.pending, "open", "pending"),
        ):
            bars.append(
                _build_bar(place, below, number, most, kind, f"{_name(summary, period)}: {number} {word}")
            )
            below += number
    yield from _build_chart(summary, bars, f"Transactions by {summary.step}; the table below has the numbers")
    keys = (("good", "succeeded"), ("bad", "failed"), ("open", "pending"))
    marks = "".join(
        f'<svg viewBox="0 0 1 1" aria-hidden="true"><rect class="{kind}" width="1" height="1"/></svg>{word}'
        for kind, word in keys
    )
    yield f'<p class="soft key">{marks}</p>'


def _build_bar(place: int, below: int, value: int, most: int, kind: str, label: str) -> str:
    """ "" for nothing. A small value is still to be seen."""
    if not value:
        return ""
    height = max(_HEIGHT * value // most, _HEIGHT // 100)
    top = max(_HEIGHT - _HEIGHT * below // most - height, 0)
    return (
        f'<rect class="{kind}" x="{place * (_BAR + _GAP)}" y="{top}" width="{_BAR}" height="{height}">'
        f"<title>{escape(label)}</title></rect>"
    )


def _build_chart(summary: Summary, bars: Sequence[str], label: str) -> Iterator[str]:
    # A few periods should not become a few walls.
    wide = max(len(summary.periods), 12) * (_BAR + _GAP)
    yield (
        f'<svg viewBox="0 0 {wide} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{"".join(bars)}</svg>'
    )
    first, last = _name(summary, summary.periods[0]), _name(summary, summary.periods[-1])
    ends = (
        f"<span>{first}</span><span>{last}</span>" if len(summary.periods) >= 12 else f"<span>{first}</span>"
    )
    yield f'<p class="soft ends">{ends}</p>'


def _name(summary: Summary, period: Period) -> str:
    return format_period(period.start, summary.step)


def _build_table(head: str, rows: Sequence[tuple[str, Totals]], *, unpaid: bool = True) -> Iterator[str]:
    """A table of totals; `unpaid` adds what was not paid, which has no resource."""
    yield f'<div class="wide" tabindex="0" role="region" aria-label="By {escape(head.lower())}"><table>'
    heads = ("Succeeded", *(("Failed", "Pending") if unpaid else ()), "Revenue")
    columns = "".join(f'<th scope="col">{one}</th>' for one in (head, *heads))
    yield f"<thead><tr>{columns}</tr></thead><tbody>"
    for name, totals in rows:
        others = (f"{totals.failed:,}", f"{totals.pending:,}") if unpaid else ()
        values = (f"{totals.succeeded:,}", *others, format_revenue(totals) or "0")
        cells = "".join(f"<td>{escape(one)}</td>" for one in values)
        yield f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    yield "</tbody></table></div>"
