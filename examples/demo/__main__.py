"""`scripts/demo`: play the scenario. Exit 0 only if each step was as printed; 1 says what was not."""

import argparse
import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from x402.http.clients.httpx import PaymentError

from faregate.errors import FaregateError
from faregate.merchant.client import AsyncMerchantClient

from .books import read_the_books
from .payer import Payer
from .reporter import Reporter, Untrue
from .scenario import Scenario
from .servers import SELLER, DidNotStart, Servers, run_servers

_STOPPED = 130


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # some shells start us without it
    signal.signal(signal.SIGTERM, _leave)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without our signs
    console = Console(highlight=False)
    reporter = Reporter(console)
    try:
        if arguments.chain:
            return _run_on_chain(reporter, arguments)
        with run_servers(arguments.seller or SELLER) as where:
            reporter.title("faregate", "a seller, the merchant service and a payer, on this machine")
            _addresses(reporter, where)
            return _run(reporter, where, lambda: play(reporter, where), serve=arguments.serve)
    except DidNotStart as error:
        console.print(f"\n{error}", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("\n  Stopped.")
        return _STOPPED


def _run_on_chain(reporter: Reporter, arguments: argparse.Namespace) -> int:
    from examples.chain.permit2 import NoPermit2, install_permit2

    from .chain_scenario import play_on_chain
    from .chain_servers import run_chain_servers  # what it needs is loaded for a chain only
    from .usage_scenario import play_by_use

    play = play_by_use if arguments.usage else play_on_chain
    if arguments.usage:
        try:
            install_permit2()
        except NoPermit2 as error:
            raise DidNotStart(f"There is no Permit2: {error}") from None
    reporter.title("faregate", "real x402 transactions, on a local chain (no money)")
    with run_chain_servers(
        reporter,
        direct=arguments.direct,
        one_process=arguments.one_process or arguments.usage,
        seller=arguments.seller,
    ) as where:
        return _run(reporter, where, lambda: play(reporter, where), serve=arguments.serve)


def _run(
    reporter: Reporter, where: Servers, tell: Callable[[], Coroutine[Any, Any, None]], *, serve: bool
) -> int:
    try:
        asyncio.run(tell())
    except Untrue as untrue:
        reporter.end(f"Not as expected: {untrue}.", well=False)
        return 1
    except (httpx.HTTPError, FaregateError, PaymentError) as error:
        reporter.end(f"The demo broke off: {type(error).__name__}: {error}", well=False)
        return 1
    reporter.end(f"All {reporter.claims} checks passed.", well=True)
    _addresses(reporter, where)
    if serve:
        reporter.say("The servers stay up until Ctrl-C.")
        threading.Event().wait()
    reporter.say("The servers end now; with --serve they stay up.")
    return 0


async def play(reporter: Reporter, where: Servers) -> None:
    """The whole scenario. Raises `Untrue` at the first thing that is not as printed."""
    async with Payer(where.seller) as payer, AsyncMerchantClient(where.api_key, where.service) as books:
        await Scenario(reporter, payer, books).play()
        await read_the_books(reporter, payer, books)


def _addresses(reporter: Reporter, where: Servers) -> None:
    reporter.facts([("service", where.service), ("seller", where.seller)])


def _leave(number: int, _frame: object) -> None:
    """Asked to end: by way of every `finally`, so that the servers end too."""
    sys.exit(128 + number)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/demo", description="Plays a scenario of paid requests.")
    parser.add_argument("--serve", action="store_true", help="leave the servers up at the end")
    parser.add_argument("--seller", type=Path, metavar="DIR", help="another app.py to play it with")
    parser.add_argument(
        "--chain",
        action="store_true",
        help="with real x402 transactions: a local chain, a facilitator, the service",
    )
    parser.add_argument(
        "--direct", action="store_true", help="with --chain: the service settles by itself, no facilitator"
    )
    parser.add_argument(
        "--one-process",
        action="store_true",
        help="with --chain: the service is in the seller's process; one of its workers is killed",
    )
    parser.add_argument(
        "--usage",
        action="store_true",
        help="with --chain: a price that follows the use; the seller has the service in its process",
    )
    arguments = parser.parse_args()
    for option in ("direct", "one_process", "usage"):
        if getattr(arguments, option) and not arguments.chain:
            parser.error(f"--{option.replace('_', '-')} goes with --chain")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
