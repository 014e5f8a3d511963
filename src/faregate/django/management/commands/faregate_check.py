from faregate.cli.registry import CHECK
from faregate.django.management.base import FaregateCommand


class Command(FaregateCommand):
    command = CHECK
