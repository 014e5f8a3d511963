"""`faregate sweep`: finish interrupted and held payments, once or until told to stop."""

import json
import logging
import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from contextlib import suppress

from faregate.cli.signals import ShutdownSignal
from faregate.core.recovery import BATCH
from faregate.errors import ConfigurationError, JournalError
from faregate.journals.memory import MemoryJournal
from faregate.logs import log
from faregate.operations.journal_command import find_problems
from faregate.operations.sweep import SweepReport, spread, walk
from faregate.paywall import Paywall

EVERY = 30.0


def add_sweep(parser: ArgumentParser) -> None:
    """What the command may be called with, wherever it is called from."""
    add = parser.add_argument
    add("--watch", action="store_true", help="keep sweeping until interrupted or sent a SIGTERM")
    add(
        "--every",
        type=_seconds,
        default=EVERY,
        metavar="SECONDS",
        help=f"with --watch: from one sweep to the next, a quarter more or less; default {EVERY:g}",
    )
    add(
        "--limit",
        type=_number,
        default=BATCH,
        metavar="N",
        help=f"look at no more payments than this in one sweep; default {BATCH}",
    )
    add("--json", action="store_true", help="print one line of JSON for each sweep")


def _seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < math.inf:
        raise ArgumentTypeError("must be above 0")
    return seconds


def _number(text: str) -> int:
    if (number := int(text)) < 1:
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
        sweep(paywall, arguments, lambda line: print(line, flush=True))
    finally:
        paywall.close()
    return 0


def sweep(paywall: Paywall, options: Namespace, echo: Callable[[str], object]) -> None:
    """What the command does, for whoever has a paywall already. Raises `JournalError`, unless it watches."""
    with suppress(JournalError):  # the sweep says it
        for problem in find_problems(paywall):
            log(logging.WARNING, "%s", problem)
    try:
        if options.watch:
            watch(paywall, options.every, echo, limit=options.limit, as_json=options.json)
        else:
            with ShutdownSignal() as shutdown:
                echo(_format(walk(paywall, options.limit, lambda: shutdown.requested), options.json))
    except KeyboardInterrupt:
        pass  # the second Ctrl-C; what it interrupted is left to the next sweep


def watch(
    paywall: Paywall,
    every: float,
    echo: Callable[[str], object],
    *,
    limit: int = BATCH,
    as_json: bool = False,
) -> None:
    """Sweep about every `every` seconds until a signal asks the process to stop.

    A sweep that reached `limit` is followed by the next at once. A journal that fails is reported and
    tried again: it may recover.
    """
    with ShutdownSignal() as shutdown:
        while not shutdown.requested:
            full = False
            try:
                report = walk(paywall, limit, lambda: shutdown.requested)
                full = report.looked_at >= limit
                echo(_format(report, as_json))
            except JournalError as error:
                problem = f"The journal failed: {error}"
                echo(json.dumps({"error": problem}) if as_json else problem)
            if not full:
                shutdown.wait(spread(every))


def _format(report: SweepReport, as_json: bool) -> str:
    return report.as_json() if as_json else report.as_text()
