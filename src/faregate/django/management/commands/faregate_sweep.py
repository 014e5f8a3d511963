"""`manage.py faregate_sweep`: finish what payers left open."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from faregate.django.conf import shop
from faregate.django.management.told import as_command_errors
from faregate.sweeping import keep_sweeping, swept


class Command(BaseCommand):
    help = "Finish what was interrupted or held while its payer is away."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--watch", action="store_true", help="go on until interrupted")
        parser.add_argument("--every", type=float, default=30.0, metavar="SECONDS", help="with --watch")

    @as_command_errors
    def handle(self, *_args: Any, **options: Any) -> None:
        if options["watch"]:
            keep_sweeping(shop().paywall, options["every"], self.stdout.write)
        self.stdout.write(swept(shop().paywall))
