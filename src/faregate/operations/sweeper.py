"""Walking over a journal beside those who sell, once or on and on: as a command, or in an event loop."""

import json
import logging
import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from contextlib import suppress

import anyio

from faregate.core.recovery import BATCH
from faregate.errors import ConfigurationError, JournalError
from faregate.journals.memory import MemoryJournal
from faregate.logs import log
from faregate.operations.journal_command import find_problems
from faregate.operations.signals import ShutdownSignal
from faregate.operations.sweep import SweepReport, awalk, spread, walk
from faregate.paywall import Paywall

EVERY = 30.0


def add_sweep(parser: ArgumentParser) -> None:
    """What the command may be called with, wherever it is called from."""
    add = parser.add_argument
    add("--watch", action="store_true", help="go on until it is interrupted, or gets a SIGTERM")
    add(
        "--every",
        type=_seconds,
        default=EVERY,
        metavar="SECONDS",
        help=f"with --watch: from one walk to the next, a quarter more or less; {EVERY:g} by default",
    )
    add(
        "--limit",
        type=_number,
        default=BATCH,
        metavar="N",
        help=f"look at so many sales in one walk at most; {BATCH} by default",
    )
    add("--json", action="store_true", help="print one line of JSON for each walk")


def _seconds(said: str) -> float:
    if not 0 < (seconds := float(said)) < math.inf:
        raise ArgumentTypeError("must be above 0")
    return seconds


def _number(said: str) -> int:
    if (number := int(said)) < 1:
        raise ArgumentTypeError("must be above 0")
    return number


def run_sweep(arguments: Namespace) -> int:
    """`faregate sweep`: the journal that the environment names."""
    paywall = Paywall()
    if isinstance(paywall.journal, MemoryJournal):
        raise ConfigurationError(
            "The memory journal is in the seller's own process, and only that can sweep it: "
            "set FAREGATE_JOURNAL to the journal that the workers share."
        )
    try:
        sweep_as_asked(paywall, arguments, lambda line: print(line, flush=True))
    finally:
        paywall.close()
    return 0


def sweep_as_asked(paywall: Paywall, asked: Namespace, tell: Callable[[str], object]) -> None:
    """What the command does, for whoever has a paywall already. Raises `JournalError`, unless it watches."""
    warn_of_problems(paywall)
    try:
        if asked.watch:
            keep_sweeping(paywall, asked.every, tell, limit=asked.limit, for_machines=asked.json)
        else:
            with ShutdownSignal() as ending:
                tell(_said(walk(paywall, asked.limit, lambda: ending.is_asked), asked.json))
    except KeyboardInterrupt:
        pass  # asked twice: what was interrupted now is the next sweep's


def warn_of_problems(paywall: Paywall) -> None:
    """Log what keeps a sweep from finishing rows: keys that are missing, an address that changed."""
    with suppress(JournalError):  # the sweep tells it
        for problem in find_problems(paywall):
            log(logging.WARNING, "%s", problem)


def keep_sweeping(
    paywall: Paywall,
    every: float,
    tell: Callable[[str], object],
    *,
    limit: int = BATCH,
    for_machines: bool = False,
) -> None:
    """Walk until the process is told to end. A walk that found as much as it may is followed at once.

    What is wrong with the journal is told, and may pass.
    """
    with ShutdownSignal() as ending:
        while not ending.is_asked:
            full = False
            try:
                tally = walk(paywall, limit, lambda: ending.is_asked)
                full = tally.looked_at >= limit
                tell(_said(tally, for_machines))
            except JournalError as error:
                fault = f"The journal failed: {error}"
                tell(json.dumps({"error": fault}) if for_machines else fault)
            if not full:
                ending.rest(spread(every))


def _said(tally: SweepReport, for_machines: bool) -> str:
    return tally.as_json() if for_machines else tally.as_text()


async def keep_asweeping(paywall: Paywall, every: float, ending: anyio.Event, limit: int = BATCH) -> None:
    """`keep_sweeping` in an event loop, until `ending` is set. Nothing but that or a cancel ends it."""
    while not ending.is_set():
        full = False
        try:
            tally = await awalk(paywall, limit, ending.is_set)
            full = tally.looked_at >= limit
            if tally.looked_at:
                log(logging.INFO, "%s", tally.as_text())
        except JournalError as error:
            log(logging.WARNING, "the sweep will try again: %s", error)
        except Exception as error:
            log(logging.ERROR, "the sweep will try again", error=error)
        if not full:
            with anyio.move_on_after(spread(every)):
                await ending.wait()
