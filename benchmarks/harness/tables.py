"""Medians and ratios as markdown. A ratio is taken within each round, then its median over the rounds."""

from collections.abc import Callable, Iterable
from statistics import median

from harness.contestants import BARE, X402, Case
from harness.load import Measured

Value = Callable[[Measured], float]

_HEAD = "| contestant | req/s | x bare | x x402 | p50 ms | p99 ms | CPU us/req | CPU x bare | CPU x x402 |"
_RULE = "|---|---:|---:|---:|---:|---:|---:|---:|---:|"


def markdown(cases: Iterable[Case], measured: list[Measured]) -> str:
    parts = [
        _table(case, payers, [one for one in measured if one.case == case.name and one.payers == payers])
        for case in cases
        for payers in case.payers
    ]
    return "\n\n".join(parts) + "\n"


def _table(case: Case, payers: int, measured: list[Measured]) -> str:
    noun = "payer" if payers == 1 else "payers"
    rows = [_row(contestant.name, measured) for contestant in case.calls]
    return "\n".join([f"**{case.title}, {payers} {noun} at once**", "", _HEAD, _RULE, *rows])


def _row(name: str, measured: list[Measured]) -> str:
    own = [one for one in measured if one.contestant == name]
    cells = (
        name,
        f"{median(one.per_second for one in own):,.0f}",
        _ratio(own, measured, BARE.name, lambda one: one.per_second),
        _ratio(own, measured, X402.name, lambda one: one.per_second),
        f"{median(one.p50_ms for one in own):.2f}",
        f"{median(one.p99_ms for one in own):.2f}",
        f"{median(one.processor_us for one in own):,.0f}",
        _ratio(own, measured, BARE.name, lambda one: one.processor_us),
        _ratio(own, measured, X402.name, lambda one: one.processor_us),
    )
    return f"| {' | '.join(cells)} |"


def _ratio(own: list[Measured], measured: list[Measured], other: str, value: Value) -> str:
    base = {one.round: value(one) for one in measured if one.contestant == other}
    ratios = [value(one) / base[one.round] for one in own if one.round in base]
    if not ratios:
        return "-"
    middle = median(ratios)
    return f"{middle:.1f}" if middle >= 10 else f"{middle:.2f}"
