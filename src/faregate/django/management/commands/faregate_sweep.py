"""`manage.py faregate_sweep`: finish what payers left open."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from faregate.django.conf import shop
from faregate.django.management.told import as_command_errors


class Command(BaseCommand):
    help = "Finish what was interrupted or held while its payer is away."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--watch", action="store_true", help="go on until interrupted")
        parser.add_argument("--every", type=float, default=30.0, metavar="SECONDS", help="with --watch")

    @as_command_errors
    def handle(self, *_args: Any, **options: Any) -> None:
        while True:
            rows = shop().paywall.sweep()
            self.stdout.write(f"Looked at {rows} {'sale' if rows == 1 else 'sales'}.")
            if not options["watch"]:
                return
            time.sleep(options["every"])
