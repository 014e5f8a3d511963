"""Kill sellers at most points on SQLite and at those of the store on others, and notice each broken rule.

With `--full`, at every point on SQLite. `scripts/crash-points --trials 1` does every point on every store,
and without `--trials` forty times.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.crash import stores
from tests.crash.points.campaign import chosen_points
from tests.crash.points.mutants import VARIANTS
from tests.servers.shared import need
from tests.support.campaigns import run_campaign
from tests.support.promises import Wrong


def campaign(*arguments: str) -> tuple[int, Any]:
    return run_campaign("tests.crash.points", *arguments)


OF_STORES = ":in,stopped/work"
"""Words in names of points: where a write is cut off or comes from a former owner, the store decides."""
POINTS = {"sqlite": ":in,:acted,:after,:middle,:body,stopped/", "redis": OF_STORES, "postgres": OF_STORES}
"""On SQLite not before each step, unless another process goes on: that is after the step before it."""


@pytest.mark.parametrize("kind", stores.STORES)
def test_nothing_is_lost_or_done_twice_wherever_a_seller_is_killed(
    kind: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    need(kind, stores.missing(kind))
    points = "" if kind == "sqlite" and pytestconfig.getoption("--full") else POINTS[kind]
    chosen = ("--points", points) if points else ()
    status, found = campaign("--journals", kind, "--trials", "1", "--resume", str(tmp_path), *chosen)
    assert (found["failures"], status) == ([], 0)
    assert [name for name, deaths in found["points"].items() if deaths != {kind: 1}] == []
    assert found["journals"][kind]["trials"] == len(chosen_points(points))


NOTICED = {
    "no-claim": ("stopped/work:middle", Wrong.SECOND_EXECUTION),
    "no-fence": ("stopped/work:middle", Wrong.CONTRADICTION),
    "complete-before-outcome": ("record_outcome:in", Wrong.NOT_DELIVERED),
    "release-on-any-2xx": ("schedule_retry:before", Wrong.UNPAID_RELEASE),
}


IN_PART = ("no-claim", "release-on-any-2xx")
"""What the suite takes out; the others with `--full`."""


@pytest.mark.parametrize(
    "variant", [pytest.param(one, marks=[] if one in IN_PART else [pytest.mark.full]) for one in VARIANTS]
)
def test_a_rule_that_is_taken_out_is_missed(variant: str, tmp_path: Path) -> None:
    points, wrong = NOTICED[variant]
    chosen = ("--journals", "sqlite", "--points", points, "--trials", "2")
    status, found = campaign(*chosen, "--broken", variant, "--resume", str(tmp_path))
    assert status == 1
    assert found["journals"]["sqlite"][wrong]["found"] > 0
    assert found["journals"]["sqlite"]["errors"] == 0
