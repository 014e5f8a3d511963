"""`flask faregate`: the commands, for the app that Flask loaded."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click
from flask import current_app
from flask.cli import with_appcontext

from faregate.cli.merchant_client import open_client_of
from faregate.cli.registry import COMMANDS
from faregate.commands import Command, Option, raise_as
from faregate.errors import CommandError, FaregateError
from faregate.flask.routes import get_middleware, list_routes
from faregate.maintenance.journal import make_view


def _build_command(command: Command, target: str | None) -> click.Command:
    line = f"{command.summary[0].upper()}{command.summary[1:]}."
    text = command.description or line
    if command.actions:
        actions = [_build_command(action, command.get_target(action)) for action in command.actions]
        return click.Group(command.name, commands=actions, help=text, short_help=line)

    @with_appcontext
    def call(values: dict[str, Any]) -> int:
        with _open_target(target) as on:
            return command.call(on, click.echo, values)

    def run(**values: Any) -> None:
        try:
            status = call(values)  # loads the app, which may fail
        except CommandError as error:
            raise click.UsageError(str(error)) from error
        except FaregateError as error:
            raise click.ClickException(str(error)) from error
        if status:
            raise SystemExit(status)

    params = [_build_parameter(option) for option in command.options]
    return click.Command(command.name, callback=run, params=params, help=text, short_help=line)


def _open_target(target: str | None) -> AbstractContextManager[Any]:
    """What a command works on, for the current app."""
    if target == "routes":
        return nullcontext(list_routes(current_app))
    paywall = get_middleware(current_app).paywall
    if target == "journal":
        return nullcontext(
            make_view(paywall.journal, paywall.settings.namespace, paywall.settings.name_setting("journal"))
        )
    return nullcontext(paywall) if target == "paywall" else open_client_of(paywall)


def _build_parameter(option: Option) -> click.Parameter:
    if option.is_positional:
        return click.Argument([option.flag], metavar=option.metavar)
    if option.parse is None:
        return click.Option([option.flag], is_flag=True, help=option.help)
    parse = raise_as(click.BadParameter, option.parse)
    return click.Option(
        [option.flag], type=parse, default=option.default, metavar=option.metavar, help=option.help
    )


def build_commands() -> list[click.Command]:
    return [_build_command(command, command.target) for command in COMMANDS if command.target is not None]
