"""`manage.py faregate_journal`."""

from faregate.cli.commands import JOURNAL
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = JOURNAL
