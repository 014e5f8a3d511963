"""Sweep a journal again and again in an event loop, beside the requests it serves."""

import logging

import anyio

from faregate.core.recovery import BATCH
from faregate.errors import JournalError
from faregate.logs import log
from faregate.operations.sweep import awalk, spread
from faregate.paywall import Paywall


async def keep_asweeping(paywall: Paywall, every: float, ending: anyio.Event, limit: int = BATCH) -> None:
    """Sweep about every `every` seconds until `ending` is set. Only that, or a cancellation, ends it.

    A sweep that reached `limit` is followed by the next at once. Errors are logged, and the sweep goes on.
    """
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
