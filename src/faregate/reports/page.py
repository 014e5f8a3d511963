"""The report as one HTML page: no script, no external resource, light and dark. Pure.

The content security policy allows the page's own style by its hash and nothing else, so that a name from
the service cannot do anything even if it were not escaped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from faregate.pages import hash_style, render, render_style
from faregate.reports.export import format_moment
from faregate.reports.summary import (
    Period,
    Summary,
    format_outcomes,
    format_period,
    format_revenue,
    format_revenue_of,
    format_span,
)

State = Literal["succeeded", "failed", "pending"]
_STATES: Final[tuple[State, ...]] = ("succeeded", "failed", "pending")
_HEIGHT: Final = 1000
_BAR: Final = 8
_GAP: Final = 2
_FEWEST_PLACES: Final = 12
"""A few periods should not become a few walls."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle of a chart, in the chart's own units; its class is `state`."""

    state: State
    x: int
    y: int
    height: int
    label: str
    width: int = _BAR


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with a place for each period."""

    title: str
    highest: str
    width: int
    bars: tuple[Bar, ...]
    height: int = _HEIGHT


def build_page(summary: Summary, environment: str) -> str:
    """Build the whole page. `environment` is test or live."""
    names = [_name(summary, period) for period in summary.periods]
    style = render_style("report.css")
    return render(
        "report.html",
        style=style,
        style_hash=hash_style(style),
        environment=environment,
        span=format_span(summary).partition(", ")[2],
        as_of=format_moment(summary.as_of),
        figures=list(_list_figures(summary)),
        outcomes=format_outcomes(summary.totals),
        interval=summary.interval,
        charts=_build_charts(summary) if summary.totals.count else [],
        ends=[names[0], names[-1]] if len(names) >= _FEWEST_PLACES else names[:1],
        resources=summary.resources,
        periods=list(zip(names, (period.totals for period in summary.periods), strict=True)),
        format_revenue=format_revenue,
    )


def _list_figures(summary: Summary) -> Iterator[tuple[str, str]]:
    totals = summary.totals
    for asset in summary.assets:
        yield f"Revenue, {asset}", format_revenue_of(asset, totals)
    yield "Succeeded", f"{totals.succeeded:,}"
    yield "Failed", f"{totals.failed:,}"
    yield "Pending", f"{totals.pending:,}"
    yield "Payers", f"{summary.payers:,}"


def _build_charts(summary: Summary) -> list[Chart]:
    revenues = [_build_revenue_chart(summary, asset) for asset in summary.assets]
    return [*revenues, _build_outcome_chart(summary)]


def _build_revenue_chart(summary: Summary, asset: str) -> Chart:
    totals = [period.totals for period in summary.periods]
    best = max(totals, key=lambda total: total.revenue[asset])
    bars = (
        _build_bar("succeeded", place, 0, period.totals.revenue[asset], best.revenue[asset], label)
        for place, period in enumerate(summary.periods)
        for label in [f"{_name(summary, period)}: {format_revenue_of(asset, period.totals)}"]
    )
    return _build_chart(summary, f"Revenue in {asset}", format_revenue_of(asset, best), bars)


def _build_outcome_chart(summary: Summary) -> Chart:
    most = max(period.totals.count for period in summary.periods)
    bars = (
        bar for place, period in enumerate(summary.periods) for bar in _stack(summary, place, period, most)
    )
    return _build_chart(summary, "Transactions", f"{most:,}", bars)


def _stack(summary: Summary, place: int, period: Period, most: int) -> Iterator[Bar | None]:
    below = 0
    for state in _STATES:
        count: int = getattr(period.totals, state)
        yield _build_bar(state, place, below, count, most, f"{_name(summary, period)}: {count} {state}")
        below += count


def _build_bar(state: State, place: int, below: int, value: int, most: int, label: str) -> Bar | None:
    """None for nothing. A small value is still to be seen."""
    if not value:
        return None
    height = max(_HEIGHT * value // most, _HEIGHT // 100)
    top = max(_HEIGHT - _HEIGHT * below // most - height, 0)
    return Bar(state, place * (_BAR + _GAP), top, height, label)


def _build_chart(summary: Summary, title: str, highest: str, bars: Iterator[Bar | None]) -> Chart:
    width = max(len(summary.periods), _FEWEST_PLACES) * (_BAR + _GAP)
    return Chart(title, highest, width, tuple(bar for bar in bars if bar is not None))


def _name(summary: Summary, period: Period) -> str:
    return format_period(period.start, summary.interval)
