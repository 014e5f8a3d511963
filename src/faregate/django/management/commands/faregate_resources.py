from faregate.cli.registry import RESOURCES
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = RESOURCES
