"""Schedules by the thousand, each from a seed.

    scripts/simulate --seeds 0..10000 [--workers 2] [--json]
    scripts/simulate --seed 851 --trace

Exits 1 if a rule is broken, and names the seeds that break it.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.model.invariants import Violation
from tests.model.simulation import Simulation
from tests.support.campaigns import Progress, make_parser

BATCH = 500
ENOUGH = 20
"""So many violations, and it stops looking for more."""


@dataclass
class Tally:
    """What came of some seeds: `broken` says which rule, by seed."""

    seeds: int = 0
    seconds: float = 0.0
    broken: dict[int, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        self.seeds += other.seeds
        self.broken |= other.broken
        self.counts += other.counts


def simulate(seeds: Iterable[int]) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.seeds += 1
        try:
            tally.counts += Simulation(seed).run()
        except Violation as violation:
            tally.broken[seed] = str(violation)
    return tally


def in_batches(seeds: range, workers: int) -> Iterator[Tally]:
    batches = [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]
    if workers == 1:
        yield from map(simulate, batches)
        return
    with get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(simulate, batches)


def run(seeds: range, workers: int) -> Tally:
    tally, began, progress = Tally(), time.monotonic(), Progress()
    for batch in in_batches(seeds, workers):
        tally.add(batch)
        tally.seconds = time.monotonic() - began
        for seed, rule in batch.broken.items():
            progress.keep(f"seed {seed}: {rule}")
        progress.show(f"{tally.seeds:,} of {len(seeds):,} seeds", tally.seeds / len(seeds))
        if len(tally.broken) >= ENOUGH:
            break
    progress.close()
    return tally


def trace(seed: int) -> int:
    try:
        Simulation(seed, say=print).run()
    except Violation as violation:
        print(f"seed {seed}: {violation}")
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.trace and options.seed is not None:
        return trace(options.seed)
    tally = run(
        options.seeds if options.seed is None else range(options.seed, options.seed + 1), options.workers
    )
    if options.json:
        print(json.dumps(vars(tally)))
    else:
        print(_summary(tally))
    return 1 if tally.broken else 0


def _summary(tally: Tally) -> str:
    speed = tally.seeds / (tally.seconds or 1)
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(tally.counts.items()))
    broken = f", broken by seeds {sorted(tally.broken)}" if tally.broken else ""
    return f"{tally.seeds:,} seeds, {len(tally.broken)} violations{broken}, {speed:.0f} seeds/s\n{counts}"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = make_parser("simulate", __doc__)
    parser.add_argument("--seeds", type=_range, default=range(10_000), help="from and to, as in 0..10000")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--trace", action="store_true", help="tell what happens, step by step")
    parser.add_argument("--workers", type=int, default=1)
    return parser.parse_args(arguments)


def _range(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last))


if __name__ == "__main__":
    raise SystemExit(main())
