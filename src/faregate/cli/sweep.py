"""`sweep`: finish interrupted and held payments, once, or until interrupted."""

import json as jsonlib
import logging
from contextlib import suppress

from faregate.cli.command import Echo
from faregate.cli.signals import ShutdownSignal
from faregate.core.recovery import BATCH, SweepReport
from faregate.errors import JournalError
from faregate.logs import log
from faregate.maintenance.background_sweep import jitter
from faregate.maintenance.journal import find_problems
from faregate.paywall import Paywall


def run_sweep(paywall: Paywall, echo: Echo, *, watch: bool, every: float, limit: int, json: bool) -> int:
    """Sweep once, or until interrupted. Raises `JournalError`, unless it watches."""
    with suppress(JournalError):  # the sweep reports it
        for problem in find_problems(paywall):
            log("journal", logging.WARNING, "%s", problem)
    try:
        if watch:
            sweep_repeatedly(paywall, every, echo, limit=limit, json=json)
        else:
            with ShutdownSignal() as shutdown:
                echo(_format(paywall.sweep(limit, lambda: shutdown.requested), json))
    except KeyboardInterrupt:
        pass  # the second Ctrl-C: the next sweep takes up what this one leaves
    return 0


def sweep_repeatedly(
    paywall: Paywall,
    every: float,
    echo: Echo,
    *,
    limit: int = BATCH,
    json: bool = False,
) -> None:
    """Sweep about every `every` seconds until a signal asks the process to stop.

    A sweep that reached `limit` is followed by the next at once. A journal that fails is reported and
    tried again: it may recover.
    """
    with ShutdownSignal() as shutdown:
        while not shutdown.requested:
            full = False
            try:
                report = paywall.sweep(limit, lambda: shutdown.requested)
                full = report.looked_at >= limit
                echo(_format(report, json))
            except JournalError as error:
                problem = f"The journal failed: {error}"
                echo(jsonlib.dumps({"error": problem}) if json else problem)
            if not full:
                shutdown.wait(jitter(every))


def _format(report: SweepReport, json: bool) -> str:
    return report.as_json() if json else report.as_text()
