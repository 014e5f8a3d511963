from faregate.cli.registry import REPORT
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = REPORT
