"""Kill sellers at every point of a sale, and compare what the service, the handler and the payers say of it.

scripts/crash-points                                      every point, 40 times, on every journal
scripts/crash-points --journals sqlite --trials 1         every point once
scripts/crash-points --only sqlite:record_transaction:after:17         one trial again
scripts/crash-points --broken complete-before-outcome     with a rule taken out: must fail
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.crash import stores
from tests.crash.points import mutants, report
from tests.crash.points.campaign import Campaign, chosen_points, one
from tests.support.campaigns import Progress, choose, make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    said = _parser().parse_args(arguments)
    campaign = _campaign(said)
    planned, progress = len(campaign.planned), Progress(quiet=said.json)
    before, results = len(campaign.said), campaign.said

    def tell(result: dict[str, Any]) -> None:
        results.append(result)
        if report.has_failed(result):
            progress.keep(f"{result['trial']}: {result['wrongs'] or result['error']}")
        part = (len(results) - before) / (planned - before)
        progress.show(f"{report.line(results)} of {planned}", part)

    campaign.run(tell)
    progress.close()
    found = report.summary(results, campaign.kinds, campaign.points)
    _print(found, said, campaign)
    return 1 if found["failures"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("crash-points", __doc__)
    parser.add_argument("--journals", default=",".join(stores.STORES), help=", ".join(stores.STORES))
    parser.add_argument("--trials", type=int, default=40, help="of each point on each journal (40)")
    parser.add_argument("--points", default="", help="those whose names contain one of these words")
    parser.add_argument("--workers", type=int, default=8, help="trials at the same time (8)")
    parser.add_argument("--seed", type=int, default=1, help="of all plans (1)")
    parser.add_argument("--resume", type=Path, help="the folder of a campaign, to be continued or begun")
    parser.add_argument("--only", default="", help="one trial: JOURNAL:POINT:NUMBER")
    parser.add_argument("--broken", default="", choices=("", *mutants.VARIANTS), help="take a rule out")
    parser.add_argument("--list", action="store_true", help="the names of all points")
    return parser


def _campaign(said: argparse.Namespace) -> Campaign:
    if said.list:
        print(*chosen_points(said.points), sep="\n")
        raise SystemExit(0)
    folder: Path = said.resume or Path(tempfile.mkdtemp(prefix="crash-points-"))
    folder.mkdir(parents=True, exist_ok=True)
    if said.only:
        only = one(said.only, said.seed, said.broken)
        return Campaign([only.kind], [only.point], 1, said.seed, 1, folder, said.broken, only)
    kinds, points = choose(said.journals, stores.STORES), chosen_points(said.points)
    return Campaign(kinds, points, said.trials, said.seed, said.workers, folder, said.broken)


def _print(found: dict[str, Any], said: argparse.Namespace, campaign: Campaign) -> None:
    if said.json:
        print(json.dumps(found))
        return
    print(report.markdown(found))
    for failure in found["failures"]:
        print(
            f"\n{failure['trial']} with --seed {failure['seed']}: {failure.get('wrongs') or failure['error']}"
        )
    print(f"\nEvery trial stands in {campaign.folder}.", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
