"""`manage.py faregate_holds`: what is owed to payers, and what people can do about it."""

from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from faregate.cli.holds import add_holds, hold_as_asked
from faregate.django.conf import shop
from faregate.django.management.base import as_command_errors


class Command(BaseCommand):
    help = "List what is owed to payers, and do what only people can do about it."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        add_holds(parser)

    @as_command_errors
    def handle(self, *_args: Any, **options: Any) -> None:
        code = hold_as_asked(shop().paywall, Namespace(**options), self.stdout.write)
        if code:
            raise SystemExit(code)
