from faregate.cli.registry import PAYERS
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = PAYERS
