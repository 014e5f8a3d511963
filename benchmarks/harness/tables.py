"""Medians, ratios and targets as markdown. A ratio is taken within each round, then its median over them."""

from collections.abc import Iterable, Sequence
from statistics import median

from harness.contestants import CASES, FAST, SQLITE, TARGETS, Case, Contestant, Quantity, Target
from harness.load import Measurement
from harness.results import Results

LARGE_TARGET = 1.5
"""How far the process may grow for a large result, times its size."""
LINEAR_TARGET = 1.25
"""Processor time per MiB of the largest result, times that of the middle one."""
IMPORT_TARGET = 120.0
"""Milliseconds of processor time beyond the framework."""
FLAT_TARGET = 1.05
"""Memory at the end of very many payments, times that when the journal was full."""
MEMORY_ROWS = 100_000
"""What a memory journal keeps at most."""


class Figures:
    """Finds measurements, and compares them round by round."""

    def __init__(self, measured: Iterable[Measurement]) -> None:
        self._by_key = {(one.kind, one.contestant, one.payers, one.round): one for one in measured}
        self.rounds = sorted({one.round for one in self._by_key.values()})

    def find(self, kind: str, contestant: Contestant, payers: int) -> list[Measurement]:
        keys = ((kind, contestant.name, payers, number) for number in self.rounds)
        return [self._by_key[key] for key in keys if key in self._by_key]

    def median(self, kind: str, contestant: Contestant, payers: int, quantity: str) -> float | None:
        found = [getattr(one, quantity) for one in self.find(kind, contestant, payers)]
        return median(found) if found else None

    def compare(self, target: Target, payers: int) -> float | None:
        """Return the median of the ratios, or differences, of all rounds that have both contestants."""
        kind, quantity = target.kind.name, target.quantity
        base = {one.round: float(getattr(one, quantity)) for one in self.find(kind, target.against, payers)}
        own = [one for one in self.find(kind, target.of, payers) if one.round in base]
        pairs = [(float(getattr(one, quantity)), base[one.round]) for one in own]
        if not pairs:
            return None
        return median(one - other if target.is_difference else one / other for one, other in pairs)


def build_case_table(results: Results, case: Case) -> str:
    """Build the tables of one case: one for each number of payers."""
    figures = Figures(results.measured)
    return "\n\n".join(_build_payers_table(figures, case, payers) for payers in case.payers)


def _build_payers_table(figures: Figures, case: Case, payers: int) -> str:
    noun = "payer" if payers == 1 else "payers"
    heads = ["contestant", "req/s", *(f"x {name}" for name in case.against)]
    heads += ["p50 ms", "p99 ms", "CPU us/req", *(f"CPU x {name}" for name in case.against)]
    rows = [_build_row(figures, case, contestant, payers) for contestant in case.contestants]
    return f"**{case.title}, {payers} {noun}**\n\n{build_table(heads, rows)}"


def _build_row(figures: Figures, case: Case, contestant: Contestant, payers: int) -> list[str]:
    def value(quantity: str, digits: int = 0) -> str:
        found = figures.median(case.kind.name, contestant, payers, quantity)
        return "-" if found is None else f"{found:,.{digits}f}"

    def ratios(quantity: Quantity) -> list[str]:
        bases = [case.find_base(head, contestant) for head in case.against]
        return [
            format_ratio(
                None
                if base is None
                else figures.compare(Target("", contestant, base, {}, quantity, case.kind), payers)
            )
            for base in bases
        ]

    first = [contestant.name, value("per_second"), *ratios("per_second")]
    return [*first, value("p50_ms", 2), value("p99_ms", 1), value("cpu_us"), *ratios("cpu_us")]


def build_target_table(results: Results) -> str:
    """Build the table of all targets that were measured: what was reached, and whether it is enough."""
    figures = Figures(results.measured)
    rows = [row for target in TARGETS if (row := _build_target_row(figures, target))]
    rows += [*_build_large_target(results), *_build_memory_target(results)]
    rows += [
        _build_plain_row(f"import {one.module}, ms beyond its framework", one.cpu_ms, IMPORT_TARGET)
        for one in results.imports
        if one.module != "faregate.fastapi"  # only shown
    ]
    return build_table(["what", "payers", "measured", "target", "met"], rows) if rows else ""


def _build_target_row(figures: Figures, target: Target) -> list[str] | None:
    found = {payers: figures.compare(target, payers) for payers in target.bounds}
    measured = {payers: value for payers, value in found.items() if value is not None}
    if not measured:
        return None
    bounds = [target.bounds[payers] for payers in measured]
    is_met = [
        value >= bound if target.is_minimum else value <= bound
        for value, bound in zip(measured.values(), bounds, strict=True)
    ]
    return [
        target.what,
        _join(measured),
        " / ".join(format_ratio(value) for value in measured.values()),
        f"{'at least' if target.is_minimum else 'at most'} {_join(f'{bound:g}' for bound in bounds)}",
        _join("yes" if one else "**no**" for one in is_met),
    ]


def _build_large_target(results: Results) -> list[list[str]]:
    rows: list[list[str]] = []
    for contestant in (FAST, SQLITE):
        own = {one.mib: one for one in results.large if one.contestant == contestant.name}
        if len(own) < 2:
            continue
        *_, middle, largest = sorted(own)
        growth = own[largest].growth_mib / largest
        slope = (own[largest].cpu_ms / largest) / (own[middle].cpu_ms / middle)
        name = f"{contestant.name}, {largest} MiB"
        rows.append(_build_plain_row(f"{name}: growth at the peak, times the result", growth, LARGE_TARGET))
        rows.append(_build_plain_row(f"{name}: CPU per MiB, times {middle} MiB", slope, LINEAR_TARGET))
    return rows


def _build_memory_target(results: Results) -> list[list[str]]:
    full = [sample for sample in results.memory if sample.requests > MEMORY_ROWS]
    if len(full) < 4:
        return []
    first, last = full[0], full[-1]
    what = f"memory after {last.requests:,} payments, times that after {first.requests:,}"
    return [_build_plain_row(what, last.resident_mib / first.resident_mib, FLAT_TARGET)]


def _build_plain_row(what: str, value: float, bound: float) -> list[str]:
    return [what, "", format_ratio(value), f"at most {bound:g}", "yes" if value <= bound else "**no**"]


def build_large_table(results: Results) -> str:
    """Build the table of large results; the growth includes the handler's own result."""
    rows = [
        [
            one.contestant,
            f"{one.mib}",
            f"{one.cpu_ms:.1f}",
            f"{one.growth_mib:.1f}",
            f"{one.growth_mib / one.mib:.2f}",
        ]
        for one in results.large
    ]
    heads = ["contestant", "MiB", "CPU ms", "growth at the peak, MiB", "times the result"]
    return f"**Large results, one at a time**\n\n{build_table(heads, rows)}"


def build_memory_table(results: Results) -> str:
    step = max(1, len(results.memory) // 10)
    rows = [[f"{one.requests:,}", f"{one.resident_mib:.1f}"] for one in results.memory[::step]]
    title = "**Memory over many payments (memory journal, rows kept for five seconds)**"
    return f"{title}\n\n{build_table(['paid requests', 'resident MiB'], rows)}"


def build_import_table(results: Results) -> str:
    rows = [[one.module, f"{one.cpu_ms:.0f}"] for one in results.imports]
    return f"**Imports, beyond the framework's own**\n\n{build_table(['module', 'CPU ms'], rows)}"


def build_failures(results: Results) -> str:
    lines = (f"- {one.contestant} ({one.kind}), round {one.round}: {one.reason}" for one in results.failures)
    return "\n".join(["**Not measured**", "", *lines])


def build_report(results: Results) -> str:
    """Build everything that was measured, as markdown."""
    parts = [build_case_table(results, case) for case in CASES if case.name in results.cases]
    parts += [build_large_table(results)] if results.large else []
    parts += [build_memory_table(results)] if results.memory else []
    parts += [build_import_table(results)] if results.imports else []
    parts += [build_target_table(results)]
    parts += [build_failures(results)] if results.failures else []
    return "\n\n".join(filter(None, parts)) + "\n"


def build_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def format_ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _join(parts: Iterable[object]) -> str:
    return " / ".join(map(str, parts))
