"""`manage.py faregate_check`: whether everything that is for sale can be sold."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from faregate.django.conf import shop
from faregate.django.management.base import as_command_errors
from faregate.django.routes import list_routes
from faregate.routes.check import check, describe_instructions


class Command(BaseCommand):
    help = "Ask the journal and the merchant service whether everything that is for sale can be sold."
    requires_system_checks = ()

    @as_command_errors
    def handle(self, *_args: Any, **_options: Any) -> None:
        inventory = list_routes()
        faults = check(inventory)
        if not faults:
            number = len(inventory.offers)
            offers = "1 offer" if number == 1 else f"{number} offers"
            self.stdout.write(f"All is well: {offers} at {shop().paywall.settings.base_url}")
        for note in describe_instructions(inventory):
            self.stdout.write(note)
        if faults:
            raise CommandError("\n".join(faults))
