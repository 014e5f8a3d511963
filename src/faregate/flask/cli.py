"""`flask faregate`: the commands, for the app that Flask loaded."""

from argparse import ArgumentParser
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import click
from flask import current_app
from flask.cli import AppGroup

from faregate.cli.command import CommandError
from faregate.cli.holds import add_holds, hold_as_asked
from faregate.cli.sweep import add_sweep
from faregate.cli.sweep import sweep as run_sweep
from faregate.errors import FaregateError
from faregate.flask.routes import get_middleware, list_routes
from faregate.operations.journal_command import add_journal, administer
from faregate.routes.check import check, describe_instructions
from faregate.routes.table import as_json, as_table

# These are called as `faregate sweep`, `holds` and `journal` are, so they are read by the same parsers.
_AS_IT_IS: dict[str, Any] = {
    "context_settings": {"ignore_unknown_options": True},
    "add_help_option": False,
}

commands = AppGroup("faregate", help="What this app sells.")


@commands.command("routes")
@click.option("--json", "for_machines", is_flag=True, help="For machines.")
def routes(for_machines: bool) -> None:
    """List every route as paid, free or refused.

    Fails if something is declared that no request can reach.
    """
    inventory = list_routes(current_app)
    click.echo(as_json(inventory) if for_machines else as_table(inventory))
    if inventory.problems:
        raise SystemExit(1)


@commands.command("check")
def check_all() -> None:
    """Ask whether everything can be sold: the settings, the journal, each key at the service."""
    door, inventory = get_middleware(current_app), list_routes(current_app)
    faults = check(inventory)
    for fault in faults:
        click.echo(fault, err=True)
    if not faults:
        offers = len(inventory.offers)
        number = f"{offers} {'offer' if offers == 1 else 'offers'}"
        click.echo(f"All is well: {number} at {door.paywall.settings.base_url}")
    for note in describe_instructions(inventory):
        click.echo(note)
    if faults:
        raise SystemExit(1)


@commands.command("sweep", **_AS_IT_IS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def sweep(words: tuple[str, ...]) -> None:
    """Finish what payers left open; for a timer, with a journal that the workers share."""
    asked = _parser("sweep", sweep.help, add_sweep).parse_args(words)
    with _told():
        run_sweep(get_middleware(current_app).paywall, asked, click.echo)


@commands.command("holds", **_AS_IT_IS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def holds(words: tuple[str, ...]) -> None:
    """What is owed to payers, and what people can do about it."""
    asked = _parser("holds", holds.help, add_holds).parse_args(words)
    with _told():
        code = hold_as_asked(get_middleware(current_app).paywall, asked, click.echo)
    raise SystemExit(code)


@commands.command("journal", **_AS_IT_IS)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def journal(words: tuple[str, ...]) -> None:
    """The journal's keys, and the addresses it was used with."""
    asked = _parser("journal", journal.help, add_journal).parse_args(words)
    with _told():
        administer(get_middleware(current_app).paywall, asked, click.echo)


def _parser(name: str, description: str | None, add: Callable[[ArgumentParser], None]) -> ArgumentParser:
    parser = ArgumentParser(f"flask faregate {name}", description=description)
    add(parser)
    return parser


@contextmanager
def _told() -> Generator[None]:
    """A fault is one sentence in a terminal, not a traceback."""
    try:
        yield
    except CommandError as error:
        raise click.UsageError(str(error)) from error
    except FaregateError as error:
        raise click.ClickException(str(error)) from error
