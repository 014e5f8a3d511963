"""`manage.py faregate_sweep`: finish what payers left open."""

from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from faregate.cli.sweep import add_sweep, sweep
from faregate.django.conf import shop
from faregate.django.management.base import as_command_errors


class Command(BaseCommand):
    help = "Finish what was interrupted or held while its payer is away."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        add_sweep(parser)

    @as_command_errors
    def handle(self, *_args: Any, **options: Any) -> None:
        sweep(shop().paywall, Namespace(**options), self._tell)

    def _tell(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
