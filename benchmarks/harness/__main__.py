"""`benchmarks/run`: make the measurements, keep them, print the tables, and write the docs."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from harness.contestants import CASES, Case
from harness.docs import write_docs
from harness.extremes import (
    ImportCost,
    LargeResult,
    MemorySample,
    measure_imports,
    measure_large,
    measure_memory,
)
from harness.load import Measurement
from harness.processes import HERE, Service, run_chain, run_service
from harness.results import begin_results, read_results
from harness.rounds import Failure, plan_steps, run_rounds
from harness.tables import build_report

EXTREMES = ("imports", "large", "memory")
NAMES = (*(case.name for case in CASES), *EXTREMES)
Once = LargeResult | MemorySample | ImportCost
Found = Measurement | Failure | Once


def main() -> int:
    options = _parse_arguments()
    if options.tables:
        results = read_results(options.tables)
        if options.docs:
            write_docs(results)
        print(build_report(results), end="")
        return 0
    names = options.case or list(NAMES)
    results = begin_results(options.seconds, names)
    path: Path = options.out / f"{results.at[:16].replace(':', '')}{'-quick' if options.quick else ''}.json"
    with run_service() as service:
        for found in _measure(service, options, names):
            results.add(found)
            # Written each time: whatever ends this run, what was measured is not lost.
            results.write(path)
            print(_describe(found), file=sys.stderr, flush=True)
    print(f"Written to {os.path.relpath(path)}.\n", file=sys.stderr)
    print(build_report(results), end="")
    if options.docs:
        write_docs(results)
    return 1 if results.failures else 0


def _measure(service: Service, options: argparse.Namespace, names: list[str]) -> Iterator[Found]:
    """Yield everything that was asked for; the rounds come last, because they fill the time that is left."""
    deadline = time.monotonic() + options.minutes * 60
    if "imports" in names:
        yield from _catch("imports", measure_imports())
    if "large" in names:
        yield from _catch("large", measure_large(service))
    if "memory" in names:
        yield from _catch("memory", measure_memory(service, options.payments))
    chosen: tuple[Case, ...] = tuple(case for case in CASES if case.name in names)
    on_nginx = tuple(case for case in chosen if not case.kind.on_chain)
    yield from run_rounds(service, plan_steps(on_nginx), options.rounds, options.seconds, deadline)
    on_chain = tuple(case for case in chosen if case.kind.on_chain)
    if on_chain:
        with run_chain() as chain:
            yield from run_rounds(chain, plan_steps(on_chain), options.rounds, options.seconds, deadline)


def _catch(name: str, measured: Iterator[Once]) -> Iterator[Found]:
    """Yield a failure instead of raising: the rest of the run must not be lost."""
    try:
        yield from measured
    except Exception as fault:
        yield Failure(name, "FastAPI: faregate", 1, f"{type(fault).__name__}: {fault}")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/run", description="Measure faregate and others, side by side."
    )
    parser.add_argument(
        "--case", choices=NAMES, action="append", help="only this one; may be given several times"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one round of a second, only to see that it works"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of load per contestant, payers and round")
    parser.add_argument("--minutes", type=float, default=25, help="begin no round that would end later")
    parser.add_argument("--payments", type=int, default=200_000, help="of the case memory")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the figures")
    parser.add_argument("--tables", type=Path, help="measure nothing: print the tables of this file")
    parser.add_argument("--docs", action="store_true", help="write the figures and plots into docs/")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.payments = 1, 1, 2_000
    return options


def _describe(found: Found) -> str:
    if isinstance(found, Failure):
        return f"FAILED {found.kind}, {found.contestant}, round {found.round}: {found.reason}"
    if isinstance(found, LargeResult):
        return f"{found.contestant}, {found.mib} MiB: {found.cpu_ms:.1f} ms, {found.growth_mib:.1f} MiB more"
    if isinstance(found, ImportCost):
        return f"import {found.module}: {found.cpu_ms:.0f} ms"
    if isinstance(found, MemorySample):
        return f"{found.requests:,} paid requests: {found.resident_mib:.1f} MiB"
    return (
        f"round {found.round} {found.kind:>6} {found.payers:>2} payers  {found.contestant:<40}"
        f" {found.per_second:>8,.0f} req/s  {found.cpu_us:>7,.0f} us"
        f"{f'  {found.log_lines} lines in its log' if found.log_lines else ''}"
    )


if __name__ == "__main__":
    sys.exit(main())
