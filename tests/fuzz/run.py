"""Random applications behind the paywall: messages of ASGI and WSGI in every order.

    scripts/fuzz-messages --cases 13000 [--seed 0] [--json]

Half of the cases are ASGI, half WSGI; each has its own seed, counted from `--seed`. Exits 1 if a rule is
broken, and prints the program of each seed that breaks one.
"""

import json
import logging
import time
import warnings
from dataclasses import dataclass, field

from tests.fuzz import asgi, wsgi
from tests.support.campaigns import Progress, make_parser

ENOUGH = 20
"""So many violations, and it stops looking for more."""


@dataclass
class Tally:
    """What came of some cases. `broken` says which rules, by seed."""

    cases: int = 0
    requests: int = 0
    released: int = 0
    runs: int = 0
    broken: dict[int, str] = field(default_factory=dict[int, str])


def play(seeds: range, progress: Progress) -> Tally:
    tally = Tally()
    for number, seed in enumerate(seeds):
        case = asgi.Case(seed) if seed % 2 else wsgi.Case(seed)
        text = str(case)  # before it is played: faults are used up
        wrong = case.play()
        tally.cases += 1
        tally.requests += len(case.world.answers)
        tally.released += sum(answer.is_released for answer in case.world.answers)
        tally.runs += len(case.world.runs)
        if wrong:
            tally.broken[seed] = "\n".join((text, *wrong))
        if len(tally.broken) >= ENOUGH:
            break
        progress.show(f"{number + 1} cases, {len(tally.broken)} broken", (number + 1) / len(seeds))
    progress.close()
    return tally


def main() -> None:
    parser = make_parser("fuzz-messages", __doc__)
    parser.add_argument("--cases", type=int, default=13_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    began = time.monotonic()
    tally = play(range(arguments.seed, arguments.seed + arguments.cases), Progress(quiet=arguments.json))
    if arguments.json:
        print(json.dumps(vars(tally)))
    else:
        for seed, text in tally.broken.items():
            print(f"seed {seed} breaks a rule:\n{text}\n")
        print(
            f"{tally.cases} cases, {tally.requests} requests, {tally.runs} paid works, "
            f"{tally.released} releases, "
            f"{len(tally.broken)} violations, {time.monotonic() - began:.0f} s"
        )
    raise SystemExit(1 if tally.broken else 0)


if __name__ == "__main__":
    main()
