"""Let stock x402 clients buy from sellers that settle late, lose answers and are killed; count charges.

scripts/stock-clients                                       1,000 purchases from each of two sellers
scripts/stock-clients --applications faregate --purchases 200 --delays 0,3
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from tests.crash.clients.campaign import Campaign, run
from tests.crash.clients.seller import APPLICATIONS, DELAYS
from tests.support.campaigns import Progress, choose, make_parser
from tests.support.processes import lifeline

WRONGS = ("charged_again", "charged_without_result", "delivered_without_charge")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    applications = choose(options.applications, tuple(APPLICATIONS))
    delays = [int(delay) for delay in choose(options.delays, [str(delay) for delay in DELAYS])]
    lifeline()
    results: list[dict[str, Any]] = []
    for application in applications:
        progress = Progress(f"{application}, ", quiet=options.json)
        campaign = Campaign(
            application,
            options.purchases,
            options.seed,
            options.lose,
            options.at_once,
            delays,
            options.kill_every,
            options.lose_results,
        )
        results.append(run(campaign, progress.show))
        progress.close()
        if not options.json:
            print(
                ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in results[-1].items()),
                flush=True,
            )
    if options.json:
        print(json.dumps(results))
    ours = (result for result in results if result["application"] == "faregate")
    return int(any(result[wrong] for result in ours for wrong in WRONGS))


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("stock-clients", __doc__)
    parser.add_argument("--applications", default=",".join(APPLICATIONS), help=", ".join(APPLICATIONS))
    parser.add_argument("--purchases", type=int, default=1000, help="from each application (1000)")
    parser.add_argument("--delays", default=",".join(map(str, DELAYS)), help="seconds until payments settle")
    parser.add_argument("--seed", type=int, default=1, help="of the orders and the lost answers (1)")
    parser.add_argument("--lose", type=int, default=20, help="of a hundred answers (20)")
    parser.add_argument("--lose-results", action="store_true", help="of those that were sent whole")
    parser.add_argument("--at-once", type=int, default=24, help="buyers of each client (24)")
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds between kills (5); 0: none")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
