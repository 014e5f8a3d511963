"""`scripts/demo`: plays the story. Exit 0 only if each step was as told; 1 says what was not."""

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
from .stage import SELLER, DidNotStart, Stage, stage
from .story import Story
from .teller import Teller, Untrue

_STOPPED = 130


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # some shells start us without it
    signal.signal(signal.SIGTERM, _leave)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without our signs
    console = Console(highlight=False)
    teller = Teller(console)
    try:
        if arguments.chain:
            return _run_on_chain(teller, arguments)
        with stage(arguments.seller) as where:
            teller.title("faregate", "a seller, the merchant service and a payer, on this machine")
            _addresses(teller, where)
            return _run(teller, where, lambda: play(teller, where), serve=arguments.serve)
    except DidNotStart as error:
        console.print(f"\n{error}", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("\n  Stopped.")
        return _STOPPED


def _run_on_chain(teller: Teller, arguments: argparse.Namespace) -> int:
    from .chain_stage import chain_stage  # what it needs is loaded for a play on a chain only
    from .chain_story import play_on_chain

    teller.title("faregate", "real payments, on a chain of this machine")
    with chain_stage(teller, direct=arguments.direct, seller=arguments.seller) as where:
        return _run(teller, where, lambda: play_on_chain(teller, where), serve=arguments.serve)


def _run(teller: Teller, where: Stage, tell: Callable[[], Coroutine[Any, Any, None]], *, serve: bool) -> int:
    try:
        asyncio.run(tell())
    except Untrue as untrue:
        teller.end(f"Not as told: {untrue}.", well=False)
        return 1
    except (httpx.HTTPError, FaregateError, PaymentError) as error:
        teller.end(f"The story broke off: {type(error).__name__}: {error}", well=False)
        return 1
    teller.end(f"All {teller.claims} checks passed.", well=True)
    _addresses(teller, where)
    if serve:
        teller.say("The servers stay up until Ctrl-C.")
        threading.Event().wait()
    teller.say("The servers end now; with --serve they stay up.")
    return 0


async def play(teller: Teller, where: Stage) -> None:
    """The whole story. Raises `Untrue` at the first thing that is not as told."""
    async with Payer(where.seller) as payer, AsyncMerchantClient(where.api_key, where.service) as books:
        await Story(teller, payer, books).play()
        await read_the_books(teller, payer, books)


def _addresses(teller: Teller, where: Stage) -> None:
    teller.facts([("service", where.service), ("seller", where.seller)])


def _leave(number: int, _frame: object) -> None:
    """Asked to end: by way of every `finally`, so that the servers end too."""
    sys.exit(128 + number)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/demo", description="Plays the story of paid requests.")
    parser.add_argument("--serve", action="store_true", help="leave the servers up at the end")
    parser.add_argument(
        "--seller", type=Path, default=SELLER, metavar="DIR", help="another app.py to play it with"
    )
    parser.add_argument(
        "--chain", action="store_true", help="with real payments: a chain, a facilitator, the service"
    )
    parser.add_argument(
        "--direct", action="store_true", help="with --chain: the service settles by itself, no facilitator"
    )
    arguments = parser.parse_args()
    if arguments.direct and not arguments.chain:
        parser.error("--direct goes with --chain")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
