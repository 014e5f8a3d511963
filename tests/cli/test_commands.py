"""`faregate`: its table of commands, each of which is imported only when it is called for."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from faregate.cli import main
from faregate.cli.registry import COMMANDS
from faregate.commands import Command
from faregate.flask.cli import build_commands as build_flask_commands


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


def test_the_help_fits_a_terminal_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    heads = [line.split()[0] for line in lines if line[:1].isupper()]
    assert heads == ["Build", "Sell", "Run"]
    listed = [line[7:].split()[0] for line in lines[3:] if line]
    assert listed == [command.name for command in COMMANDS]


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("transaction", " Did you mean transactions?"),
        ("recipt", " Did you mean receipt?"),
        ("serve", " Did you mean service?"),
        ("sell", " `faregate --help` lists the commands."),
    ],
)
def test_a_command_that_does_not_exist(typed: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([typed, "--json"])
    assert stopped.value.code == 2
    usage, message = capsys.readouterr().err.splitlines()
    assert usage == "usage: faregate [-h] [--version] COMMAND ..."
    assert message == f"faregate: error: '{typed}' is not a command.{hint}"


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


def list_flags(command: Command) -> dict[str, set[str]]:
    """The options of a command and of its actions."""
    flags = {command.name: {option.flag for option in command.options}}
    return flags | {action.name: {option.flag for option in action.options} for action in command.actions}


LOADED = [command for command in COMMANDS if command.declaration]


@pytest.mark.parametrize("command", LOADED, ids=lambda command: command.name)
def test_a_command_is_declared_as_the_table_lists_it(command: Command) -> None:
    declared = command.load()
    assert (declared.name, declared.summary) == (command.name, command.summary)
    assert command.target is declared.target is None


SHARED = [command for command in COMMANDS if command.target is not None]


@pytest.mark.parametrize("command", SHARED, ids=lambda command: command.name)
def test_flask_has_the_same_options(command: Command) -> None:
    made = {one.name: one for one in build_flask_commands()}[command.name]
    actions: dict[str, click.Command] = getattr(made, "commands", {})
    assert {
        name: {flag for one in action.params for flag in one.opts} for name, action in actions.items()
    } == {name: flags for name, flags in list_flags(command).items() if name != command.name}
    assert {flag for one in made.params for flag in one.opts} == list_flags(command)[command.name]


@pytest.mark.parametrize("command", SHARED, ids=lambda command: command.name)
def test_django_has_the_same_commands(command: Command) -> None:
    module = import_module(f"faregate.django.management.commands.faregate_{command.name}")
    assert module.Command.command is command
