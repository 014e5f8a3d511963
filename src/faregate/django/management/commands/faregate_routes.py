"""`manage.py faregate_routes`: every route as paid, free or refused."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from faregate.django.management.base import as_command_errors
from faregate.django.routes import list_routes
from faregate.routes.table import as_json, as_table


class Command(BaseCommand):
    help = (
        "List every route as paid, free or refused; fails if something is declared that no request reaches."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="for machines")

    @as_command_errors
    def handle(self, *_args: Any, **options: Any) -> None:
        inventory = list_routes()
        self.stdout.write(as_json(inventory) if options["json"] else as_table(inventory))
        if inventory.problems:
            raise SystemExit(1)
