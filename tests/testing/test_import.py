"""The plugin is read at every start of pytest, by people who may never use it: it loads nothing."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.testing.suites import run_anew

HEAVY = (
    *("django", "fastapi", "flask", "starlette", "werkzeug", "httpx", "httpcore", "pydantic", "uvicorn"),
    *("anyio", "coincurve", "eth_account", "eth_utils"),
    *("faregate.emulator", "faregate.merchant", "faregate.paywall", "faregate.testing"),
)


def test_pytest_finds_it() -> None:
    [found] = [one for one in entry_points(group="pytest11") if one.name == "faregate"]
    assert found.value == "faregate.pytest_plugin"


def test_importing_it_loads_nothing() -> None:
    code = f"""
import sys, pytest
before = set(sys.modules)
import faregate.pytest_plugin
more = set(sys.modules) - before
assert not more & set({HEAVY!r}), more
assert all(name.split(".")[0] == "faregate" for name in more), more
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_it_takes_no_time() -> None:
    """Under 20 ms of the processor; the shortest of several, for other things run here too."""
    code = """
import time, pytest
start = time.process_time()
import faregate.pytest_plugin
print(time.process_time() - start)
"""
    command = [sys.executable, "-c", code]
    taken = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3)]
    assert min(taken) < 0.02


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A project that has other plans with all of these names."""
    (tmp_path / "test_other.py").write_text(
        """
import os, sys
import pytest

@pytest.fixture
def payer():
    return "mine"

@pytest.fixture
def emulator():
    return "mine as well"

def test_mine(payer, emulator):
    assert (payer, emulator) == ("mine", "mine as well")
    assert "FAREGATE_BASE_URL" not in os.environ
    assert "pydantic" not in sys.modules
"""
    )
    return tmp_path


def test_who_does_not_use_it_does_not_notice(stranger: Path) -> None:
    off = ("-p", "no:anyio", "-p", "no:xdist", "-W", "error", "--strict-markers")
    assert " 1 passed in " in run_anew(stranger, *off)
    assert " 1 passed in " in run_anew(stranger, *off, "-p", "no:faregate")


def test_a_missing_package_is_named_by_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import sys; sys.modules['eth_keys'] = None")
    (tmp_path / "test_it.py").write_text("def test_it(payer): ...\n")

    assert "pip install 'faregate[emulator]'" in run_anew(tmp_path)
