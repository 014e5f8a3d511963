"""`examples/shop_tests`, run as its README says."""

import re
import resource
from pathlib import Path

from tests.testing.suites import run_anew

SUITE = Path(__file__).parents[2] / "examples" / "shop_tests"
CASES = 10
LIMIT = 4.0
"""Seconds of the processor. Alone on it they are less than two; here others run beside it."""


def _passed(printed: str) -> int:
    found = re.search(r"^=+ (\d+) passed in [\d.]+s =+$", printed, re.MULTILINE)
    assert found is not None, printed
    return int(found[1])


def test_it_passes_and_is_quick() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = run_anew(SUITE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime

    assert _passed(printed) == CASES
    assert spent < LIMIT, printed


def test_it_passes_in_two_processes() -> None:
    printed = run_anew(SUITE, "-n", "2", "-v")

    assert _passed(printed) == CASES
    assert set(re.findall(r"^\[(gw\d)\]", printed, re.MULTILINE)) == {"gw0", "gw1"}


def test_it_is_short() -> None:
    assert len((SUITE / "test_shop.py").read_text().splitlines()) < 60
