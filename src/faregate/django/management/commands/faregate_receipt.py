"""`manage.py faregate_receipt`."""

from faregate.cli.commands import RECEIPT
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = RECEIPT
