"""`manage.py faregate_payers`."""

from faregate.cli.commands import PAYERS
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = PAYERS
