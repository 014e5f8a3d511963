"""`faregate` as `pip install faregate` brings it: without extras."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faregate.cli.registry import COMMANDS
from tests.support.virtualenvs import brought_by, link_packages

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SRC = Path(__file__).parents[2] / "src"
EXTRAS = {
    "emulator": ([], "emulator"),
    "service serve": ([], "service"),
    "pay": (["http://127.0.0.1:1/"], "pay"),
    "probe": ([], "pay"),
    "completion": (["bash"], "cli"),
}
"""The commands that need an extra: their arguments, and its name."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("plain")
    environment = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    link_packages(environment, brought_by("faregate"))
    program = str(environment / "bin" / "faregate")

    def run(*words: str, cwd: Path = folder) -> "subprocess.CompletedProcess[str]":
        # The package of this checkout, also where it is a copy in which a rule is broken.
        env = {"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin", "COLUMNS": "80"}
        return subprocess.run([program, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("command", EXTRAS)
def test_a_command_without_its_packages_names_the_extra_in_a_line(command: str, run: Run) -> None:
    arguments, extra = EXTRAS[command]
    done = run(*command.split(), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("faregate: ")
    assert line.rstrip(".").endswith(f"pip install 'faregate[{extra}]'")


def test_no_help_ends_in_a_traceback(run: Run) -> None:
    """That of a command whose options come from a missing package names the extra."""
    helps = {command.name: run(command.name, "--help") for command in COMMANDS}
    unhelped = {name for name, done in helps.items() if done.returncode}
    assert unhelped == {"emulator", "service"}
    assert all(len(helps[name].stderr.splitlines()) == 1 for name in unhelped)


def test_settings_of_a_folder_that_cannot_be_read_are_a_message(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FAREGATE_API_KEY=svc_test_hidden\n")
    done = run("contracts", cwd=tmp_path)
    assert done.returncode == 1
    tip, fault = done.stderr.splitlines()
    assert tip == "faregate: the settings in .env are not read: pip install 'faregate[cli]'"
    assert "Set FAREGATE_BASE_URL" in fault
    (tmp_path / ".env").write_text("OTHER=1\n")
    assert len(run("contracts", cwd=tmp_path).stderr.splitlines()) == 1
