"""Sweep a journal again and again in an event loop, beside the requests it serves."""

import logging
import secrets

import anyio

from faregate.core.recovery import BATCH
from faregate.errors import JournalError
from faregate.logs import log
from faregate.paywall import Paywall


def jitter(seconds: float) -> float:
    """A quarter more or less, so that several processes do not sweep at the same moment."""
    return seconds * (0.75 + secrets.randbelow(501) / 1000)


async def sweep_until(stop: anyio.Event, paywall: Paywall, every: float) -> None:
    """Sweep about every `every` seconds until `stop` is set. Only that, or a cancellation, ends it.

    A sweep that reached its limit is followed by the next at once. Errors are logged, and the sweep goes on.
    """
    while not stop.is_set():
        is_full = False
        try:
            report = await paywall.asweep(BATCH, stop.is_set)
            is_full = report.looked_at >= BATCH
            if report.looked_at:
                log("sweep", logging.INFO, "%s", report.as_text())
        # An unreachable journal is an expected failure, so there is no traceback.
        except JournalError as error:
            log("sweep", logging.WARNING, "the sweep will try again: %s", error)
        # An error that left this task would end the application's lifespan.
        except Exception as error:
            log("sweep", logging.ERROR, "the sweep will try again", error=error)
        if not is_full:
            with anyio.move_on_after(jitter(every)):
                await stop.wait()
