"""Plots as SVG, drawn without a library: a change of figures is a readable change of text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from harness.contestants import (
    BARE,
    DJANGO_ASGI_BARE,
    DJANGO_ASGI_FAST,
    DJANGO_ASGI_HAND,
    DJANGO_BARE,
    DJANGO_FAST,
    DJANGO_HAND,
    FAST,
    FLASK_BARE,
    FLASK_FAST,
    FLASK_HAND,
    FLASK_SQLITE,
    FLASK_X402,
    HAND,
    PAID,
    POSTGRES,
    REDIS,
    SQLITE,
    STARLETTE_BARE,
    STARLETTE_FAST,
    STARLETTE_HAND,
    X402,
    Contestant,
)
from harness.results import Results
from harness.tables import Figures

COLORS = ("#777777", "#0b7a75", "#1d4ed8", "#7c3aed", "#b45309", "#be123c", "#15803d", "#0e7490")
PARTS = ("application", "two calls", "paywall", "journal")
WIDTH, LEFT, RIGHT, TOP = 760, 60, 230, 46
_LINE_HEIGHT = 15
_PLOT_HEIGHT = 300
_BAR_HEIGHT = 22

_ASGI = (BARE, HAND, FAST, SQLITE, POSTGRES, REDIS, X402)
_FLASK = (FLASK_BARE, FLASK_HAND, FLASK_FAST, FLASK_SQLITE, FLASK_X402)
_STACKS = (
    ("Starlette, memory", STARLETTE_BARE, STARLETTE_HAND, STARLETTE_FAST, None),
    ("FastAPI, memory", BARE, HAND, FAST, None),
    ("FastAPI, SQLite", BARE, HAND, FAST, SQLITE),
    ("FastAPI, PostgreSQL", BARE, HAND, FAST, POSTGRES),
    ("FastAPI, Redis", BARE, HAND, FAST, REDIS),
    ("Flask, memory", FLASK_BARE, FLASK_HAND, FLASK_FAST, None),
    ("Flask, SQLite", FLASK_BARE, FLASK_HAND, FLASK_FAST, FLASK_SQLITE),
    ("Django, memory", DJANGO_BARE, DJANGO_HAND, DJANGO_FAST, None),
    ("Django under ASGI, memory", DJANGO_ASGI_BARE, DJANGO_ASGI_HAND, DJANGO_ASGI_FAST, None),
)


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Sequence[tuple[int, float]]
    """Payers, and requests per second."""


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    parts: Sequence[float]
    """Microseconds, in the order of `PARTS`."""


def build_charts(results: Results) -> dict[str, str]:
    """Build every plot for which there are figures, by file name."""
    figures = Figures(results.measured)
    found = {
        "throughput-asgi.svg": draw_lines("FastAPI, one worker", _find_lines(figures, _ASGI)),
        "throughput-flask.svg": draw_lines("Flask, one worker, 16 threads", _find_lines(figures, _FLASK)),
        "processor-time.svg": draw_bars("Processor time of a paid request, 16 payers", _find_bars(figures)),
    }
    return {name: text for name, text in found.items() if text}


def _find_lines(figures: Figures, contestants: Iterable[Contestant]) -> list[Line]:
    lines = []
    for contestant in contestants:
        values = (
            (payers, figures.median(PAID.name, contestant, payers, "per_second")) for payers in (1, 16, 64)
        )
        points = [(payers, value) for payers, value in values if value is not None]
        if len(points) > 1:
            lines.append(Line(contestant.name.partition(": ")[2], points))
    return lines


def _find_bars(figures: Figures) -> list[Bar]:
    bars = []
    for name, *contestants in _STACKS:
        used = [one for one in contestants if one is not None]
        totals = [figures.median(PAID.name, one, 16, "cpu_us") for one in used]
        known = [total for total in totals if total is not None]
        if len(known) == len(used):
            pairs = zip([0.0, *known], known, strict=False)
            bars.append(Bar(name, [max(0.0, total - before) for before, total in pairs]))
    return bars


def draw_lines(title: str, lines: Sequence[Line]) -> str:
    """Draw paid requests per second over payers, on a logarithmic scale; empty without lines."""
    if not lines:
        return ""
    values = [value for line in lines for _, value in line.points]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    payers = sorted({number for line in lines for number, _ in line.points})
    bottom = TOP + _PLOT_HEIGHT

    def x(number: int) -> float:
        return LEFT + payers.index(number) * (WIDTH - LEFT - RIGHT) / max(1, len(payers) - 1)

    def y(value: float) -> float:
        return bottom - (log10(value) - low) / max(1, high - low) * _PLOT_HEIGHT

    parts = []
    for power in range(low, high + 1):
        for value in [10**power, *([2 * 10**power, 5 * 10**power] if power < high else [])]:
            parts.append(_rule(LEFT, y(value), WIDTH - RIGHT, y(value)))
            parts.append(_text(LEFT - 8, y(value) + 4, f"{value:,}", anchor="end"))
    parts += [_text(x(number), bottom + 18, f"{number}", anchor="middle") for number in payers]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 36, "payers at once", anchor="middle"))
    heights = _spread([y(line.points[-1][1]) for line in lines])
    for line, color, height in zip(lines, COLORS, heights, strict=False):
        path = " ".join(f"{x(number):.1f},{y(value):.1f}" for number, value in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        label = f"{line.name} {line.points[-1][1]:,.0f}"
        parts.append(_text(WIDTH - RIGHT + 8, height + 4, label, fill=color))
    return _frame(f"{title}: paid requests per second", bottom + 48, parts)


def draw_bars(title: str, bars: Sequence[Bar]) -> str:
    """Draw where the microseconds go: each part is what its contestant costs beyond the one before."""
    if not bars:
        return ""
    left, right = 190, 70
    scale = (WIDTH - left - right) / max(sum(bar.parts) for bar in bars)
    parts, top = [], TOP + 24
    for place, (name, color) in enumerate(zip(PARTS, COLORS, strict=False)):
        parts.append(_box(left + place * 120, TOP - 6, 12, 12, color))
        parts.append(_text(left + place * 120 + 18, TOP + 4, name))
    for number, bar in enumerate(bars):
        y, x = top + number * (_BAR_HEIGHT + 8), float(left)
        parts.append(_text(left - 8, y + 15, bar.name, anchor="end"))
        for value, color in zip(bar.parts, COLORS, strict=False):
            parts.append(_box(x, y, value * scale, _BAR_HEIGHT, color))
            x += value * scale
        parts.append(_text(x + 6, y + 15, f"{sum(bar.parts):,.0f} us"))
    return _frame(title, top + len(bars) * (_BAR_HEIGHT + 8) + 8, parts)


def _spread(heights: Sequence[float]) -> list[float]:
    """Move labels apart, downwards, so that none covers another."""
    found, lowest = dict[int, float](), float("-inf")
    for place in sorted(range(len(heights)), key=heights.__getitem__):
        lowest = max(heights[place], lowest + _LINE_HEIGHT)
        found[place] = lowest
    return [found[place] for place in range(len(heights))]


def _frame(title: str, height: float, parts: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}"'
        f' height="{height:.0f}" font-family="sans-serif" font-size="12" role="img">'
    )
    name = f"<title>{escape(title)}</title>"
    heading = _text(16, 24, title, size=15)
    background = _box(0, 0, WIDTH, height, "#ffffff")
    return "\n".join([head, name, background, heading, *parts, "</svg>"]) + "\n"


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = "#333333", size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">'
        f"{escape(text)}</text>"
    )


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'
