"""Kill the service at some of its points, and see that its books equal the chain; catch a naive one."""

from pathlib import Path
from typing import Any

import pytest

from tests.crash.service.checker import WRONGS
from tests.crash.service.points import DIRECT_ONLY, ELSEWHERE, NETWORK, NOT_STEPS, WRITING, list_steps
from tests.servers.postgres import POSTGRES_MISSING
from tests.servers.shared import need
from tests.support.campaigns import run_campaign
from tests.support.chain import require_anvil

FEWEST_DEATHS = 5
"""In seconds that a busy machine may spend on other things."""


def campaign(folder: Path, *words: str) -> tuple[int, Any]:
    require_anvil()
    status, [found] = run_campaign("tests.crash.service", "--folder", str(folder), *words)
    return status, found


def test_every_step_has_points() -> None:
    known = {*list_steps(), *NOT_STEPS}
    assert set(ELSEWHERE) | NETWORK | WRITING | DIRECT_ONLY <= known
    assert {"BeginAttempt", "LookAtPayment", "RecordSettled", "SendPayment"} <= known


@pytest.mark.full  # the last payments may take minutes on two cores
@pytest.mark.parametrize(("database", "payments"), [("sqlite", "direct"), ("postgres", "faulty")])
def test_the_books_equal_the_chain_wherever_processes_are_killed(
    tmp_path: Path, database: str, payments: str
) -> None:
    if database == "postgres":
        need(database, POSTGRES_MISSING)
    words = ("--databases", database, "--payments", payments, "--times", "1", "--seconds", "8")
    status, found = campaign(tmp_path, *words, "--sellers", "6")
    assert (found["wrongs"], found["has ended"], status) == ([], True, 0)
    assert sum(found["deaths"].values()) >= FEWEST_DEATHS


@pytest.mark.full
def test_a_service_that_believes_facilitators_is_caught(tmp_path: Path) -> None:
    words = ("--databases", "sqlite", "--payments", "faulty", "--times", "1", "--seconds", "8")
    status, found = campaign(tmp_path, *words, "--sellers", "6", "--naive")
    wrongs = {wrong for wrong, _ in found["wrongs"]}
    assert status == 1
    assert wrongs <= set(WRONGS)
    assert wrongs & {"charged, called failed", "not charged, called succeeded"}
