"""Kill the self-hosted service at every point while it settles on a real chain; compare books and chain.

scripts/crash-service                                     20 times at each point, each database, each payments
scripts/crash-service --databases sqlite --payments direct --times 1 --seconds 60
scripts/crash-service --payments faulty --naive           a service that believes facilitators: must fail
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.crash.service import report
from tests.crash.service.campaign import Options, run_campaign
from tests.crash.service.environment import DATABASES, PAYMENTS
from tests.crash.service.points import list_points
from tests.crash.service.sellers import KINDS
from tests.crash.service.trouble import TROUBLES
from tests.support.campaigns import Progress, choose, make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = make_parser("crash-service", __doc__)
    parser.add_argument("--databases", default=",".join(DATABASES), help=", ".join(DATABASES))
    parser.add_argument("--payments", default=",".join(PAYMENTS), help=", ".join(PAYMENTS))
    parser.add_argument("--times", type=int, default=20, help="deaths at each point of each pair (20)")
    parser.add_argument(
        "--seconds", type=float, default=1200, help="of killing, at most, for each pair (1200)"
    )
    parser.add_argument("--sellers", type=int, default=12, help="that sell at the same time (12)")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of payments: {', '.join(KINDS)}")
    parser.add_argument("--points", help="only these, with commas, as those that a busy machine left over")
    parser.add_argument("--troubles", help=f"only these, by turns: {', '.join(TROUBLES)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--naive", action="store_true", help="believe what facilitators say")
    parser.add_argument("--folder", type=Path, help="for databases, logs and what was found")
    said = parser.parse_args(arguments)
    folder: Path = said.folder or Path(tempfile.mkdtemp(prefix="crash-service-"))
    kinds = choose(said.kinds, list(KINDS))
    points = choose(said.points, list_points("direct")) if said.points else ()
    troubles = choose(said.troubles, list(TROUBLES)) if said.troubles else ()
    options = Options(said.times, said.seconds, said.seed, said.sellers, said.naive, kinds, points, troubles)
    progress, found = Progress(quiet=said.json), list[dict[str, Any]]()
    for database in choose(said.databases, DATABASES):
        for payments in choose(said.payments, PAYMENTS):
            place = folder / f"{database}-{payments}"
            place.mkdir(parents=True, exist_ok=True)
            found.append(run_campaign(database, payments, options, place, progress.show))
            (place / "found.json").write_text(json.dumps(found[-1], indent=1))
    progress.close()
    print(json.dumps(found) if said.json else report.markdown(found))
    print(f"Databases, logs and figures are in {folder}.", file=sys.stderr)
    return 1 if any(one["wrongs"] or not one["has ended"] for one in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
