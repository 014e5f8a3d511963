"""Kill the workers of a seller at random, under load, and say what became of every payment.

scripts/crash-workers                                     two minutes on every store
scripts/crash-workers --stores sqlite,redis --seconds 30
scripts/crash-workers --stores sqlite,postgres --every 0.7 --faults
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from tests.crash.stores import DJANGO, STORES
from tests.crash.workers.campaign import run_on
from tests.crash.workers.checker import LIMIT, WRONGS, is_wrong
from tests.support.campaigns import Progress, choose, make_parser
from tests.support.processes import lifeline

KINDS = ("memory", *STORES, *DJANGO)


def main(arguments: Sequence[str] | None = None) -> int:
    said = _parser().parse_args(arguments)
    stores = choose(said.stores, KINDS)
    lifeline()
    found: list[dict[str, Any]] = []
    for kind in stores:
        progress = Progress(f"{kind}, ", quiet=said.json)
        found.append(
            run_on(kind, said.seconds, said.seed, said.payers, progress.show, said.every, said.faults)
        )
        progress.close()
        if not said.json:
            print(line(found[-1]), flush=True)
    if said.json:
        print(json.dumps(found))
    return 1 if any(is_wrong(one, said.limit) for one in found) else 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("crash-workers", __doc__)
    parser.add_argument("--stores", default=",".join(KINDS), help=", ".join(KINDS))
    parser.add_argument("--seconds", type=float, default=120.0, help="on each store (120)")
    parser.add_argument("--seed", type=int, default=1, help="of who is killed, and who buys what (1)")
    parser.add_argument("--payers", type=int, default=12, help="at the same time (12)")
    parser.add_argument("--every", type=float, help="kill one worker every so many seconds, and stop none")
    parser.add_argument("--faults", action="store_true", help="let calls to the service fail, too")
    parser.add_argument("--limit", type=float, default=LIMIT, help="of the slowest return, in seconds (15)")
    return parser


def line(said: dict[str, Any]) -> str:
    """What came of one store."""
    wrongs = ", ".join(f"{said['wrongs'][name]} {name}" for name in WRONGS)
    forgotten = ", ".join(f"{count} {name}" for name, count in said["forgotten"].items() if count)
    return (
        f"{said['store']}: {said['payments']} payments, {said['delivered']} delivered, "
        f"{said['pay_again']} asked to pay again, {said['kills']} kills, {said['stops']} stops; "
        f"{said['interrupted']} interrupted, {said['interrupted_again']} of them again; "
        f"median return {said['median_return']:.2f} s, slowest {said['slowest_return']:.2f} s, "
        f"longest wait {said['longest_wait']:.2f} s, "
        f"p50 {said['p50']:.2f} s, p99 {said['p99']:.2f} s; {wrongs}"
        + (f"; forgotten with their process: {forgotten}" if forgotten else "")
    )


if __name__ == "__main__":
    raise SystemExit(main())
