"""The `faregate` command. The modules of a subcommand are imported when it is called."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import chain, repeat
from typing import Final

from faregate.cli.env_file import load_env_file
from faregate.cli.registry import APP_OPTIONS, COMMANDS, GROUPS
from faregate.commands import Command, add_options, fill_parser, import_name
from faregate.errors import CommandError, FaregateError, nearest_name

_TARGETS: Final = {
    "routes": "faregate.cli.app_loader:open_routes",
    "paywall": "faregate.cli.app_loader:open_paywall",
    "service": "faregate.cli.merchant_client:open_client_from_environ",
    "journal": "faregate.cli.app_loader:open_journal",
}
_EPILOG: Final = "Settings are read from the environment: FAREGATE_API_KEY, FAREGATE_JOURNAL and others."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its status: 0 success, 1 an error, with a message on stderr, 2 a wrong call.

    Some commands have more statuses; their help lists them.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        parser = build_parser(words)
        if not words:
            parser.print_help()
            return 0
        _check_name(parser, words[0])
        arguments = parser.parse_args(words)
        load_env_file()
        status = _run(arguments)
        # Here, where a closed pipe is still caught.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has stopped. At exit the interpreter must not flush into the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (CommandError, ImportError) as error:  # a package of an extra is missing
        print(f"faregate: {error}", file=sys.stderr)
        return 2
    except FaregateError as error:
        print(f"faregate: {error}", file=sys.stderr)
        return 1
    return status


def build_parser(words: Sequence[str] = (), *, fill_all: bool = False) -> ArgumentParser:
    """The parser, in which the command that `words` call is filled; or each, with `fill_all`."""
    parser = _GroupedParser(prog="faregate")
    parser.add_argument("--version", action="version", version=f"faregate {version('faregate')}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=ArgumentParser)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.summary)
        subparser.set_defaults(command=command)
        if command.name in words[:1]:  # filling a parser may import a command's modules
            fill_command(subparser, command)
        elif fill_all:
            with suppress(ImportError, FaregateError):  # its extra is not installed: no options then
                fill_command(subparser, command)
    return parser


class _GroupedParser(ArgumentParser):
    """The parser of `faregate`, whose help lists the commands in groups, on one screen of 80 by 24."""

    def format_help(self) -> str:
        groups = ["\n".join(_format_group(name, commands)) for name, commands in GROUPS.items()]
        about = "`faregate COMMAND --help` lists the options of a command."
        return f"{self.format_usage()}{about}\n\n" + "\n\n".join(groups) + "\n"


def _format_group(name: str, commands: Sequence[Command]) -> Iterator[str]:
    for head, command in zip(chain([name], repeat("")), commands, strict=False):
        yield f"{head:<7}{command.name:<14}{command.summary}"


def _check_name(parser: ArgumentParser, name: str) -> None:
    """Exit with 2 if there is no such command."""
    names = [command.name for command in COMMANDS]
    if not name.startswith("-") and name not in names:
        hint = nearest_name(name, names) or " `faregate --help` lists the commands."
        parser.error(f"{name!r} is not a command.{hint}")


def fill_command(parser: ArgumentParser, command: Command) -> None:
    """Add the options and actions of a command of `faregate`."""
    loaded = command.load()
    parser.description, parser.epilog = loaded.description, _EPILOG if command.target else loaded.epilog
    if command.target == "routes":
        add_options(parser, APP_OPTIONS)
    fill_parser(parser, loaded)


def _run(arguments: Namespace) -> int:
    action: Command = arguments.selected
    kind = arguments.command.get_target(action)
    if kind is None:
        status: int = import_name(action.run)(arguments)
        return status
    with import_name(_TARGETS[kind])(arguments) as target:
        # Flushed line by line: `sweep --watch` may write to a pipe for days.
        called: int = action.call(target, partial(print, flush=True), vars(arguments))
        return called


def run_completion(arguments: Namespace) -> int:
    """Print a script with which a shell completes commands. Raises `CommandError` without shtab."""
    try:
        complete: Callable[..., str] = import_module("shtab").complete
    except ImportError:
        raise CommandError("Completion needs shtab: pip install 'faregate[cli]'.") from None
    print(complete(build_parser(fill_all=True), shell=arguments.shell))
    return 0
