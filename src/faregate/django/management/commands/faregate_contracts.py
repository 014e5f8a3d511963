"""`manage.py faregate_contracts`."""

from faregate.cli.commands import CONTRACTS
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = CONTRACTS
