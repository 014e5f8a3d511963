"""Kill the service at some of its points, and see that its books equal the chain; catch a naive one."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.crash.service.campaign import FEWEST_DEATHS
from tests.crash.service.checker import WRONGS
from tests.crash.service.points import BY_WORKERS, DIRECT_ONLY, ELSEWHERE, NETWORK, WRITING, list_calls
from tests.servers.postgres import POSTGRES_MISSING
from tests.support.campaigns import run_campaign
from tests.support.chain import require_anvil

SHORT = ("--kinds", "good,cancelled,overtaken,logged,broken,used,revoked")
"""No payment that ends only when its authorization expires."""
TROUBLES = ("restored", "loosened", "half_open")


def campaign(folder: Path, database: str, payments: str, *words: str) -> tuple[int, Any]:
    words = ("--times", "1", "--sellers", "4", "--folder", str(folder), *words)
    status, [found] = run_campaign(
        "tests.crash.service", "--databases", database, "--payments", payments, *words
    )
    return status, found


def test_every_call_of_the_rules_has_points() -> None:
    known = {*list_calls(), *BY_WORKERS}
    assert set(ELSEWHERE) | NETWORK | WRITING | DIRECT_ONLY <= known
    assert {"begin_attempt", "look", "record_settled", "send"} <= known


def test_the_books_equal_the_chain_wherever_processes_are_killed(tmp_path: Path) -> None:
    require_anvil()
    server = "sqlite" if POSTGRES_MISSING else "postgres"
    pairs = [("sqlite", "direct"), (server, "faulty"), ("sqlite", "inside")]
    words = (*SHORT, "--seconds", "10", "--troubles", ",".join(TROUBLES))
    # They mostly wait for blocks, so they run at once.
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda pair: campaign(tmp_path / "-".join(pair), *pair, *words), pairs))
    for status, one in found:
        assert (one["wrongs"], one["has ended"], status) == ([], True, 0), one["name"]
        assert sum(one["deaths"].values()) >= FEWEST_DEATHS
        # An application takes longer to start than a service, so less happens in the time.
        if not one["name"].endswith("inside"):
            assert set(one["trouble"]) == set(TROUBLES), one["name"]
        assert one["audit"]["payments"] > 0


@pytest.mark.full
def test_a_service_that_believes_facilitators_is_caught(tmp_path: Path) -> None:
    require_anvil()
    status, found = campaign(tmp_path, "sqlite", "faulty", "--naive", "--seconds", "4")
    wrongs = {wrong for wrong, _ in found["wrongs"]}
    assert status == 1
    assert wrongs <= set(WRONGS)
    assert wrongs & {"charged, called failed", "not charged, called succeeded"}
