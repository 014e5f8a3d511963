"""`faregate pay`: its arguments, and where the result goes."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import closing, contextmanager
from decimal import Decimal, InvalidOperation
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING, Final

from faregate.commands import Command, Option
from faregate.core.models import Header, Response
from faregate.errors import CommandError, ConfigurationError
from faregate.pay.http import SellerClient
from faregate.pay.output import ProgressStep
from faregate.pay.payment_file import PaymentFile
from faregate.pay.request import RequestSpec

if TYPE_CHECKING:
    from faregate.pay.tool import ToolClient

DESCRIPTION = """Buy what is at a URL, like curl with a wallet: request it, show the price, sign one payment,
and send that payment until the result arrives. Steps go to stderr, the body to stdout, unchanged. Exit
codes: 0 result received, 3 nothing signed, 4 payment refused, 5 payment still pending, 6 error from the
seller."""


def parse_amount(text: str) -> Decimal:
    """Parse a positive amount in units of an asset."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(0)
    if not amount.is_finite() or amount <= 0 or amount > 10**12:
        raise ValueError(f"{text!r} is not an amount, such as 0.05 or 2")
    return amount


def parse_seconds(text: str) -> float:
    """Parse a number of seconds, from 0 to one day."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise ValueError(f"{text!r} is not a number of seconds from 0 to 86400")
    return seconds


PAYER_OPTIONS: Final = (
    Option(
        "--payer",
        "pay as this test payer of the emulator; default good",
        str,
        metavar="NAME",
        group="payer",
    ),
    # The key itself is not an argument: every user of the machine can read the arguments of a process.
    Option(
        "--key-file",
        "pay with the private key in this file, or in FAREGATE_PAYER_KEY",
        str,
        metavar="FILE",
        group="payer",
    ),
    Option(
        "--max",
        "sign no payment above this, in units of the asset; default 1.00",
        parse_amount,
        "1",
        "AMOUNT",
    ),
)
"""The options that choose whose key pays, and how much."""
PAY: Final = Command(
    "pay",
    "buy what is at a URL, and show each step",
    "faregate.pay.cli:run_pay",
    DESCRIPTION,
    (
        Option("url", "what to buy; URL#TOOL is a tool of an MCP server", metavar="URL"),
        Option(
            "--method", "HTTP method; default GET, or POST with --data", str, metavar="METHOD", short="-X"
        ),
        Option(
            "--data",
            "request body, or a tool's arguments as JSON; @FILE reads a file, @- reads stdin",
            str,
            metavar="DATA",
            short="-d",
        ),
        Option(
            "--header",
            "send this header with every request; repeatable",
            str,
            metavar="'NAME: VALUE'",
            short="-H",
            is_repeatable=True,
        ),
        *PAYER_OPTIONS,
        Option("--live", "allow your own key to pay real money"),
        Option("--dry-run", "show the price and sign nothing"),
        Option(
            "--wait",
            "how long to wait for a pending payment, in all; default 60",
            parse_seconds,
            "60",
            "SECONDS",
        ),
        Option(
            "--timeout",
            "how long to wait for each response; default 75",
            parse_seconds,
            "75",
            "SECONDS",
        ),
        Option(
            "--proof",
            "keep the payment in this file while it is pending; if the file exists, send that payment again",
            str,
            metavar="FILE",
        ),
        Option("--include", "print status and headers before the body", short="-i"),
        Option("--output", "write the body to this file instead of stdout", str, metavar="FILE", short="-o"),
        Option("--json", "report each step as one line of JSON"),
    ),
)


@contextmanager
def suggest_extra() -> Generator[None]:
    """Say which extra to install when an import in this block fails.

    The imports stand in functions, because `--help` must work without the packages of the `pay` extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        hint = f"paying needs {error.name}: pip install 'faregate[pay]'"
        raise ImportError(hint, name=error.name) from None


def run_pay(arguments: Namespace) -> int:
    """Run the command and return its exit code. Raises `FaregateError`, `CommandError` and `ImportError`."""
    with suggest_extra():
        from faregate.pay.blocking import BlockingPayer, run_purchase
        from faregate.pay.purchase import ExitCode, Purchase, SystemClock
        from faregate.pay.wallet import PayerWallet, load_payer_key

    request = _build_request(arguments)
    key = load_payer_key(arguments.payer, arguments.key_file, os.environ)
    wallet = PayerWallet(key, arguments.max, live=arguments.live)
    _check_writable(arguments.output)
    payment_file = PaymentFile(request, arguments.proof)

    def report(step: ProgressStep) -> None:
        line = json.dumps({"step": step.name, **step.fields()}) if arguments.json else step.text()
        print(line, file=sys.stderr, flush=True)

    with closing(_open_client(request, arguments)) as client:
        clock = SystemClock()
        payer = BlockingPayer(client, wallet, clock)
        purchase = Purchase(request, payment_file, payer, clock, arguments.wait, report)
        steps = purchase.show_price(wallet.select_requirements) if arguments.dry_run else purchase.buy()
        result = run_purchase(purchase, steps)
        # A refused or pending response is not a result: its body must not end up in a pipe as one.
        if result.response is not None and result.exit in (ExitCode.RESULT, ExitCode.ERROR):
            _write_response(result.response, arguments, payment_file)
        # Only now: until the result has been written, the payment is the only way to fetch it again.
        if result.exit == ExitCode.RESULT and not arguments.dry_run:
            payment_file.delete()
    return int(result.exit)


def _open_client(request: RequestSpec, arguments: Namespace) -> "SellerClient | ToolClient":
    if "#" not in request.url:
        return SellerClient(request, arguments.timeout)
    try:
        from faregate.pay.tool import ToolClient
    except ModuleNotFoundError as error:
        hint = f"buying a tool needs {error.name}: pip install 'faregate[pay,mcp]'"
        raise ImportError(hint, name=error.name) from None
    return ToolClient(request, arguments.timeout)


def _build_request(arguments: Namespace) -> RequestSpec:
    body = None if arguments.data is None else _read_data(arguments.data)
    headers = tuple(_parse_header(line) for line in arguments.header)
    if "#" in arguments.url:
        if arguments.method is not None:
            raise CommandError("--method is for HTTP. A URL with #TOOL calls a tool of an MCP server.")
        return RequestSpec("tools/call", arguments.url, headers, body)
    if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
        headers = (*headers, ("Content-Type", _guess_content_type(body)))
    method = arguments.method or ("GET" if body is None else "POST")
    return RequestSpec(method.upper(), arguments.url, headers, body)


def _read_data(text: str) -> bytes:
    if text == "@-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return text.encode()
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise CommandError(f"--data cannot be read: {error}") from None


def _guess_content_type(body: bytes) -> str:
    """Return JSON for a JSON body, else the form type that curl would send."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return "application/x-www-form-urlencoded"
    return "application/json"


def _parse_header(line: str) -> Header:
    name, colon, value = line.partition(":")
    # A line break in a value would become a second header.
    printable = name.isascii() and name.isprintable() and value.isprintable() and value.isascii()
    if not colon or not name or " " in name or not printable:
        raise CommandError(f"{line!r} is not a header. Write it as 'Name: value'.")
    return name, value.strip()


def _check_writable(path: str | None) -> None:
    """Check that the result can be written, before anything is paid for."""
    if path is not None:
        try:
            # Appending creates the file but keeps what is in it, until there is a result to replace it.
            Path(path).open("ab").close()
        except OSError as error:
            raise ConfigurationError(f"--output cannot be written, so no request was sent: {error}") from None


def _write_response(response: Response, arguments: Namespace, payment_file: PaymentFile) -> None:
    """Write the result. Raises `ConfigurationError`, which says how to fetch it again without paying."""
    content = (_format_head(response) if arguments.include else b"") + response.body
    try:
        if arguments.output is None:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            Path(arguments.output).write_bytes(content)
    except OSError as error:
        path = payment_file.save_pending()
        hint = "" if path is None else f". Nothing is lost: fetch it again with --proof {path}"
        raise ConfigurationError(f"the result could not be written: {error}{hint}") from None


def _format_head(response: Response) -> bytes:
    lines = [f"HTTP {response.status} {responses.get(response.status, '')}".rstrip()]
    lines += [f"{name}: {value}" for name, value in response.headers]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")
