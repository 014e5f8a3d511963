"""Tests that run in forked processes: `support/forked_workers.py`."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFTEST = """
import os
import pytest
from tests.support.forked_workers import ForkedWorkers, Summaries

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    summaries = Summaries(lambda: None, lambda: {"process": os.getpid()}, summary.update)
    groups = [[0], [1, 2, 3, 4, 5]]
    ForkedWorkers(session, 2, groups, summaries).run()
    return True

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"told: {bool(summary) and summary['process'] != os.getpid()}")

summary = {}
"""
TESTS = """
import os, signal
import pytest

@pytest.fixture
def broken():
    yield
    raise ValueError("in the teardown")

def test_alone():
    pass

def test_fails():
    print("what it wrote")
    assert False

def test_teardown_fails(broken):
    pass

def test_is_killed():
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.skip("for a reason")
def test_is_skipped():
    pass

def test_after_the_others():
    pass
"""


def run(folder: Path, *words: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_all.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    off = [
        f"-pno:{name}" for name in ("schemathesis", "faker", "hypothesispytest", "xdist", "anyio", "faregate")
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *off, "-rA", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_each_outcome_is_told_and_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    told = run(tmp_path)
    assert "2 failed, 3 passed, 1 skipped, 1 error" in told
    for line in (
        "FAILED test_all.py::test_fails",
        "FAILED test_all.py::test_is_killed - During this test",
        "the process of the tests ended with -9",
        "ERROR test_all.py::test_teardown_fails - ValueError: in the teardown",
        "PASSED test_all.py::test_after_the_others",
        "what it wrote",
        "told: True",
    ):
        assert line in told


def test_it_stops_after_a_failure(tmp_path: Path) -> None:
    told = run(tmp_path, "-x")
    assert "1 failed" in told
    assert "test_after_the_others" not in told
    assert "stopping after 1 failures" in told
