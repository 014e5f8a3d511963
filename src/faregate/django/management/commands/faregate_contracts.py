from faregate.cli.registry import CONTRACTS
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = CONTRACTS
