from faregate.cli.registry import HOLDS
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = HOLDS
