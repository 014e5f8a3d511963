"""What one paid request takes, counted: neither a busy machine nor a faster one changes these figures.

A rise above 5 % fails. If it is worth its price, or the figures fell, write the new ones here:

    .venv-faregate/bin/python benchmarks/in_process.py --count
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "faregate"
BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "in_process.py"
WITH_SERVICE = BENCHMARK.with_name("service_inside.py")

# Calls of functions in Python, of those in C ("builtins"), turns of the event loop, and objects in cycles,
# which only the garbage collector frees, less those of the same application without a paywall: a service that
# answers at once, and the memory journal. With Python 3.11; later ones make fewer calls.
EXPECTED = {
    "asgi": {"calls": 458, "builtins": 465, "turns": 2, "cyclic": 0},
    "starlette": {"calls": 487, "builtins": 510, "turns": 2, "cyclic": 0},
    "fastapi": {"calls": 513, "builtins": 540, "turns": 2, "cyclic": 0},
    "flask": {"calls": 374, "builtins": 415, "turns": 0, "cyclic": 0},
    "django": {"calls": 470, "builtins": 483, "turns": 0, "cyclic": 0},
}
# One sale with the SQLite journal: statements that are run (four writes, and two that choose whether commits
# are synced), and commits that are synced.
EXPECTED_OF_SQLITE = {"statements": 6, "commits": 2}
# Python calls of one sale with the service inside, all in SQLite, in all threads, to a payer who has bought
# before: `benchmarks/service_inside.py --calls --only fastapi flask`.
EXPECTED_WITH_SERVICE = {"fastapi": 2351, "flask": 1961}


def count(*arguments: str) -> dict[str, dict[str, int]]:
    command = [sys.executable, str(BENCHMARK), "--count", *arguments]
    found: dict[str, dict[str, int]] = json.loads(subprocess.check_output(command, text=True, timeout=300))
    return found


def list_rises(expected: dict[str, int], found: dict[str, int]) -> list[str]:
    return [
        f"{name}: {found[name]}, was {most}" for name, most in expected.items() if found[name] > most * 1.05
    ]


@pytest.mark.parametrize("adapter", EXPECTED)
def test_a_paid_request_makes_no_more_calls_turns_and_cycles_than_before(adapter: str) -> None:
    found = count("--only", adapter)[adapter]
    assert not list_rises(EXPECTED[adapter], found), "see the head of this file"


def test_a_sale_runs_no_more_statements_and_syncs_than_before() -> None:
    found = count("--only", "sqlite")["sqlite"]
    assert not list_rises(EXPECTED_OF_SQLITE, found), "see the head of this file"


def test_a_sale_with_the_service_inside_makes_no_more_calls_than_before() -> None:
    command = [sys.executable, str(WITH_SERVICE), "--calls", "--only", *EXPECTED_WITH_SERVICE]
    found: dict[str, int] = json.loads(subprocess.check_output(command, text=True, timeout=300))
    assert not list_rises(EXPECTED_WITH_SERVICE, found), "see the head of this file"


def test_states_are_not_looked_up_in_their_classes() -> None:
    """Python 3.11 takes 0.2 us for each, and a sale asks for forty. `states.py` names them."""
    looked_up = [
        f"{path.relative_to(SOURCES)}: {member[0]}"
        for path in SOURCES.rglob("*.py")
        if path.name != "states.py"
        for member in re.finditer(r"\b(?:Row)?State\.[A-Z_]+", path.read_text())
    ]
    assert not looked_up
