"""Code shared by the commands of `manage.py`."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from django.core.management import base

from faregate.cli.merchant_client import open_client_of
from faregate.commands import Command, fill_parser
from faregate.django.conf import get_config, get_journal_view
from faregate.django.routes import list_routes
from faregate.errors import CommandError, FaregateError


class FaregateCommand(base.BaseCommand):
    """A command of `manage.py`, made from a command of `faregate`."""

    command: ClassVar[Command]
    # The system checks would refuse to run the commands that say what is wrong.
    requires_system_checks = ()

    def __init_subclass__(cls) -> None:
        cls.help = cls.command.description or cls.command.summary

    def add_arguments(self, parser: base.CommandParser) -> None:
        fill_parser(parser, self.command)

    def handle(self, *_args: Any, **options: Any) -> None:
        action = options["selected"] if self.command.actions else self.command
        try:
            with _open_target(self.command.get_target(action)) as target:
                status = action.call(target, self._echo, options)
        except CommandError as error:
            raise base.CommandError(str(error), returncode=2) from error
        except FaregateError as error:
            raise base.CommandError(str(error)) from error
        if status:
            raise SystemExit(status)

    def _echo(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _open_target(kind: str | None) -> AbstractContextManager[Any]:
    if kind == "routes":
        return nullcontext(list_routes())
    if kind == "journal":
        return nullcontext(get_journal_view())
    paywall = get_config().paywall
    return nullcontext(paywall) if kind == "paywall" else open_client_of(paywall)
