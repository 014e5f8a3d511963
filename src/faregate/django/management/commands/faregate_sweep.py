from faregate.cli.registry import SWEEP
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = SWEEP
