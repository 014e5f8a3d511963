"""`faregate openapi`: prints the description of the service."""

import sys
from argparse import ArgumentParser, Namespace

from faregate.merchant.openapi import as_text


def add_openapi(command: ArgumentParser) -> None:
    """It has no options: the document goes to standard output."""
    command.description = "Prints the merchant service as an OpenAPI 3.1 document."


def run_openapi(arguments: Namespace) -> int:
    """0, always."""
    sys.stdout.write(as_text())
    return 0
