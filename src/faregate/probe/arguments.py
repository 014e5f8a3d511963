"""What `faregate probe` may be called with."""

from argparse import ArgumentParser
from decimal import Decimal

from faregate.pay.cli import add_payer, parse_amount, parse_seconds

DESCRIPTION = """Runs the same checks against any merchant service, the emulator or the real one in test mode,
and tells which of the decisions that the specification leaves open hold there. The API key is read from
FAREGATE_API_KEY. Ends with 0 if nothing differs, 1 if something does, 2 if it could not run."""


def add_probe(command: ArgumentParser) -> None:
    command.description = DESCRIPTION
    add = command.add_argument
    add("--base-url", metavar="URL", help="the service; otherwise FAREGATE_BASE_URL")
    sold = command.add_mutually_exclusive_group()
    sold.add_argument("--resource", metavar="KEY", help="buy the resource with this integration key")
    sold.add_argument("--revision", metavar="ACR", help="buy this revision; otherwise the cheapest")
    add("--free-resource", metavar="KEY", help="a free resource; otherwise one is looked for")
    add("--slow-resource", metavar="KEY", help="a resource whose payments settle late, if there is one")
    add("--foreign-revision", metavar="ACR", help="a revision of the other environment")
    add_payer(command)
    add("--max", type=parse_amount, default=Decimal(1), metavar="AMOUNT", help="of each payment; 1.00")
    add("--timeout", type=parse_seconds, default=10.0, metavar="SECONDS", help="for each call; 10")
    add("--allow-live", action="store_true", help="let a live key in: it spends money")
    add("--json", action="store_true", help="print JSON instead of a table")
