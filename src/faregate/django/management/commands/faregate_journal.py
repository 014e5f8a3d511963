"""`manage.py faregate_journal`: the journal's keys, and the addresses it was used with."""

from argparse import Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from faregate.django.conf import shop
from faregate.django.management.base import as_command_errors
from faregate.operations.journal_command import add_journal, administer


class Command(BaseCommand):
    help = "Show what each key of the journal is needed for, and what is owed under which address."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        add_journal(parser)

    @as_command_errors
    def handle(self, *_args: Any, **options: Any) -> None:
        administer(shop().paywall, Namespace(**options), self.stdout.write)
