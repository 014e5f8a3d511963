"""The `faregate` command. The module of a subcommand is imported when it is called."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from faregate.cli.command import CommandError
from faregate.errors import FaregateError


class Command(NamedTuple):
    """`arguments` and `run` are functions, as `module:name`: one fills a parser, the other gives a status.

    What `--help` says of it at length is `about`, or set by `arguments`.
    """

    name: str
    help: str
    arguments: str
    run: str
    about: str | None = None


COMMANDS: Final = (
    Command(
        "emulator",
        "run the merchant service on this machine",
        "faregate.emulator.cli:add_emulator",
        "faregate.emulator.cli:run_emulator",
    ),
    Command(
        "pay",
        "buy what is at a URL, and see each step",
        "faregate.pay.cli:add_pay",
        "faregate.pay.cli:run_pay",
    ),
    Command(
        "routes",
        "list what an application sells",
        "faregate.cli.routes:add_routes",
        "faregate.cli.routes:run_routes",
    ),
    Command(
        "check",
        "ask the merchant service whether all of it can be sold",
        "faregate.cli.routes:add_check",
        "faregate.cli.routes:run_check",
    ),
    Command(
        "sweep",
        "finish what payers left open",
        "faregate.cli.sweep:add_sweep",
        "faregate.cli.sweep:run_sweep",
        "Walks over the journal that FAREGATE_JOURNAL names, and finishes what was interrupted or held while "
        "its payer is away. A SIGTERM is heard between two sales.",
    ),
    Command(
        "holds",
        "what is owed to payers, and what people can do about it",
        "faregate.cli.holds:add_holds",
        "faregate.cli.holds:run_holds",
        "Lists what the journal that FAREGATE_JOURNAL names owes to payers, and does what only people can do "
        "about it.",
    ),
    Command(
        "journal",
        "the journal's keys, and the addresses it was used with",
        "faregate.operations.journal_command:add_journal",
        "faregate.operations.journal_command:run_journal",
        "For changing the keys of the journal that FAREGATE_JOURNAL names, and for a service that moved.",
    ),
    Command(
        "probe",
        "find out what a merchant service decides",
        "faregate.probe.cli:add_probe",
        "faregate.probe.cli:run_probe",
    ),
    Command(
        "openapi",
        "print the service as OpenAPI 3.1",
        "faregate.merchant.openapi.__main__:add_openapi",
        "faregate.merchant.openapi.__main__:run_openapi",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. 0 is well, 1 is a fault told in a sentence on stderr, 2 is a wrong call.

    Some commands have more statuses; their help tells them.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    parser = _parser(given)
    if not given:
        parser.print_help()
        return 0
    try:
        arguments = parser.parse_args(given)
        status: int = _found(arguments.run)(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough, such as `head`. The interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except CommandError as error:
        print(f"faregate: {error}", file=sys.stderr)
        return 2
    except (FaregateError, ImportError) as error:
        print(f"faregate: {error}", file=sys.stderr)
        return 1
    return status


def _parser(given: Sequence[str]) -> ArgumentParser:
    """Only the command that is called learns its arguments."""
    parser = ArgumentParser(prog="faregate", description="Charge for an HTTP resource.")
    parser.add_argument("--version", action="version", version=f"faregate {version('faregate')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help, description=command.about)
        subparser.set_defaults(run=command.run)
        if command.name in given[:1]:
            _found(command.arguments)(subparser)
    return parser


def _found(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found
