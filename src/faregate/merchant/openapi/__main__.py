"""`faregate openapi`: prints the description of the service."""

import sys
from argparse import Namespace

from faregate.merchant.openapi import as_text


def run_openapi(arguments: Namespace) -> int:
    """0, always."""
    sys.stdout.write(as_text())
    return 0
