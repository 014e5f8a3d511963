"""`scripts/demo` on a fresh checkout: it installs no more than it needs, and shows that it does."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.support.virtualenvs import brought_by

ROOT = Path(__file__).parents[2]

# Plays Python: the environment it makes has this file as its interpreter, and its pip says what pip says.
STAND_IN = """\
#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in
-c*) exit 0 ;;
"-m venv"*) mkdir -p .venv-faregate/bin && cp "$0" .venv-faregate/bin/python ;;
"-m pip install"*)
    echo "Collecting starlette>=1.7 (from faregate==0.1.0)"
    [ -z "$FAILS" ] || { echo "ERROR: No matching distribution found for starlette" >&2; exit 1; }
    echo "Installing collected packages: starlette, uvicorn" ;;
*) echo "played" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Scripts and metadata of a checkout in which nothing was installed yet."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "python").write_text(STAND_IN)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def run(checkout: Path, script: str, fails: str = "") -> "subprocess.CompletedProcess[str]":
    calls = str(checkout / "calls")
    environ = {**os.environ, "PYTHON": str(checkout / "python"), "CALLS": calls, "FAILS": fails}
    return subprocess.run(
        [str(checkout / "scripts" / script)], env=environ, capture_output=True, text=True, timeout=60
    )


def installations(checkout: Path) -> list[str]:
    calls = (checkout / "calls").read_text().splitlines()
    return [call for call in calls if call.startswith("-m pip install")]


def test_the_demo_installs_its_own_extra_only(checkout: Path) -> None:
    played = run(checkout, "demo")
    assert (played.returncode, played.stdout) == (0, "played\n"), played.stderr
    [asked] = installations(checkout)
    assert asked.split()[-2:] == ["--editable", ".[demo]"]


def test_the_installation_is_shown(checkout: Path) -> None:
    shown = run(checkout, "demo").stderr
    for what in ("making .venv-faregate", "collecting starlette", "installing 2 packages"):
        assert what in shown


def test_it_installs_once(checkout: Path) -> None:
    run(checkout, "demo")
    again = run(checkout, "demo")
    assert (again.stdout, again.stderr) == ("played\n", "")
    assert len(installations(checkout)) == 1


def test_an_installation_that_fails_is_reported_and_tried_again(checkout: Path) -> None:
    broken = run(checkout, "demo", fails="yes")
    assert broken.returncode != 0
    assert "ERROR: No matching distribution found for starlette" in broken.stderr
    assert "played" not in broken.stdout
    assert run(checkout, "demo").stdout == "played\n"


def test_the_demo_uses_what_the_tests_installed(checkout: Path) -> None:
    run(checkout, "test")
    before = installations(checkout)
    assert "--group dev" in before[-1]
    run(checkout, "demo")
    assert installations(checkout) == before


def test_the_tests_install_what_the_demo_left_out(checkout: Path) -> None:
    run(checkout, "demo")
    run(checkout, "test")
    assert "--group dev" in installations(checkout)[-1]


def test_the_environment_of_the_user_is_left_alone(checkout: Path) -> None:
    theirs = checkout / ".venv/bin/python"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("#!/bin/sh\ntouch touched\n")
    theirs.chmod(0o755)
    for script in ("demo", "test", "check", "fix"):
        run(checkout, script)
    assert not (checkout / "touched").exists()
    assert [path for path in (checkout / ".venv").rglob("*") if path.is_file()] == [theirs]
    assert all(re.search(r"\.venv(?![-\w])", path.read_text()) is None for path in _list_scripts())


def _list_scripts() -> list[Path]:
    return [path for path in (ROOT / "scripts").iterdir() if path.is_file()] + [ROOT / "benchmarks/run"]


# Hides what the extra does not bring, in every process of the demo.
FENCE = """\
import os, sys

ABSENT = frozenset(os.environ["ABSENT"].split())

class Fence:
    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, *where):
        return None if name.partition(".")[0] in ABSENT else self._finder.find_spec(name, *where)

    def __getattr__(self, name):
        return getattr(self._finder, name)

sys.meta_path[:] = [Fence(finder) for finder in sys.meta_path]
"""


def test_the_extra_has_all_that_the_demo_needs(tmp_path: Path) -> None:
    brought = brought_by("faregate[demo]")
    absent = [
        module
        for module, places in packages_distributions().items()
        if not any(canonicalize_name(place) in brought for place in places)
        and module not in sys.stdlib_module_names
        and re.fullmatch(r"\w+", module)
    ]
    assert {"pytest", "flask", "django", "redis", "vyper"} <= set(absent)
    (tmp_path / "sitecustomize.py").write_text(FENCE)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "ABSENT": " ".join(absent)}
    played = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert played.returncode == 0, played.stdout + played.stderr
