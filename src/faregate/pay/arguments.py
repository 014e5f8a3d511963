"""What `faregate pay` may be called with."""

from argparse import ArgumentParser, ArgumentTypeError
from decimal import Decimal, InvalidOperation

DESCRIPTION = """Pays like curl: asks, shows the price, signs one payment, and comes back with the same one
until the result is here. The steps are told on stderr, the body goes to stdout as it came.
Ends with 0 if the result was received, 3 if nothing was signed, 4 if the payment was refused, 5 if it is
still open, 6 if the seller answered with an error."""


def add_pay(command: ArgumentParser) -> None:
    command.description = DESCRIPTION
    add = command.add_argument
    add("url", metavar="URL", help="what to buy")
    add("-X", "--method", metavar="METHOD", help="GET, or POST if there is data")
    add("-d", "--data", metavar="DATA", help="the body; @FILE is a file, @- is stdin")
    add(
        "-H",
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="a header, sent each time",
    )
    add_payer(command)
    add("--max", type=amount, default=Decimal(1), metavar="AMOUNT", help="in units of the asset; 1.00")
    add("--live", action="store_true", help="let your own key pay real money")
    add("--dry-run", action="store_true", help="show the price and sign nothing")
    add("--wait", type=seconds, default=60.0, metavar="SECONDS", help="for an open payment, in all; 60")
    add("--timeout", type=seconds, default=75.0, metavar="SECONDS", help="for each answer; 75")
    add(
        "--proof",
        metavar="FILE",
        help="keep the payment here while it is open; come back with it if it is there",
    )
    add("-i", "--include", action="store_true", help="show status and headers before the body")
    add("-o", "--output", metavar="FILE", help="write the body here, not to stdout")
    add("--json", action="store_true", help="tell each step as one line of JSON")


def add_payer(command: ArgumentParser) -> None:
    """Whose key pays. A private key is never an argument: others on this machine could read it."""
    payer = command.add_mutually_exclusive_group()
    payer.add_argument(
        "--payer", metavar="NAME", help="a test payer of the emulator; 'good' if nothing is said"
    )
    payer.add_argument(
        "--key-file", metavar="FILE", help="a file with your private key; or set FAREGATE_PAYER_KEY"
    )


def amount(text: str) -> Decimal:
    """A positive amount in units of an asset, to the atomic unit."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal(0)
    if not found.is_finite() or found <= 0 or found > 10**12:
        raise ArgumentTypeError(f"{text!r} is no amount: say 0.05 or 2")
    return found


def seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 86400:
        raise ArgumentTypeError(f"{text!r} is no number of seconds, 0 to 86400")
    return found
