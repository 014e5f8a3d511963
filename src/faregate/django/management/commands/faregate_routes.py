from faregate.cli.registry import ROUTES
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = ROUTES
