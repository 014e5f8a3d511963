from faregate.cli.registry import RECEIPT
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = RECEIPT
