from faregate.cli.registry import JOURNAL
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = JOURNAL
