"""`faregate`: its table of commands, each of which is imported only when it is called for."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from faregate.cli import main
from faregate.cli.commands import COMMANDS


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_a_command_says_how_it_is_called(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: faregate {name} [-h]")
    assert told.split("\n\n")[1].rstrip().endswith(".")


def test_the_list_of_commands_imports_none_of_them() -> None:
    script = (
        "import sys\nfrom faregate.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'faregate.paywall', 'faregate.emulator', 'httpx', 'pydantic'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.endswith("loaded: []\n")


def test_a_bare_call_is_helped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    told = capsys.readouterr().out
    assert told.startswith("usage: faregate [-h] [--version] COMMAND")
    assert all(command.name in told for command in COMMANDS)


@pytest.mark.parametrize("command", [["faregate"], [sys.executable, "-m", "faregate"]])
def test_its_version(command: list[str]) -> None:
    command = [
        str(Path(sys.executable).with_name(command[0])) if command == ["faregate"] else command[0],
        *command[1:],
    ]
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"faregate {version('faregate')}\n"


def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    """As `faregate openapi | head -1` has it."""
    with subprocess.Popen(
        [sys.executable, "-m", "faregate", "openapi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
