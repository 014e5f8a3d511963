"""Kill sellers at every point on SQLite and at those of the store on others, and notice each broken rule.

`scripts/crash-points --trials 1` does every point on every store, and without `--trials` forty times.
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


POINTS = {"sqlite": "", "redis": ":in,stopped/work", "postgres": ":in,stopped/work"}
"""Words in names of points: where a write is cut off or comes from a former owner, the store decides."""


@pytest.mark.parametrize("kind", stores.STORES)
def test_nothing_is_lost_or_done_twice_wherever_a_seller_is_killed(kind: str, tmp_path: Path) -> None:
    need(kind, stores.missing(kind))
    chosen = ("--points", POINTS[kind]) if POINTS[kind] else ()
    status, found = campaign("--journals", kind, "--trials", "1", "--resume", str(tmp_path), *chosen)
    assert (found["failures"], status) == ([], 0)
    assert [name for name, deaths in found["points"].items() if deaths != {kind: 1}] == []
    assert found["journals"][kind]["trials"] == len(chosen_points(POINTS[kind]))


NOTICED = {
    "no-claim": ("stopped/work:middle", Wrong.SECOND_EXECUTION),
    "no-fence": ("stopped/work:middle", Wrong.CONTRADICTION),
    "complete-before-outcome": ("record_outcome:in", Wrong.NOT_DELIVERED),
    "release-on-any-2xx": ("schedule_retry:before", Wrong.UNPAID_RELEASE),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_rule_that_is_taken_out_is_missed(variant: str, tmp_path: Path) -> None:
    points, wrong = NOTICED[variant]
    chosen = ("--journals", "sqlite", "--points", points, "--trials", "2")
    status, found = campaign(*chosen, "--broken", variant, "--resume", str(tmp_path))
    assert status == 1
    assert found["journals"]["sqlite"][wrong]["found"] > 0
    assert found["journals"]["sqlite"]["errors"] == 0
