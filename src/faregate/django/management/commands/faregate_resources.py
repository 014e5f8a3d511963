"""`manage.py faregate_resources`."""

from faregate.cli.commands import RESOURCES
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = RESOURCES
