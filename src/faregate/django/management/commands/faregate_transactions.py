from faregate.cli.registry import TRANSACTIONS
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = TRANSACTIONS
