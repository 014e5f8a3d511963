"""Walking over a shared journal beside those who sell: once for a timer, or on and on."""

import time
from argparse import Namespace
from collections.abc import Callable

from faregate.errors import JournalError, Misconfigured
from faregate.journals.memory import MemoryJournal
from faregate.paywall import Paywall


def run_sweep(arguments: Namespace) -> int:
    """`faregate sweep`: the journal that the environment names."""
    paywall = Paywall()
    if isinstance(paywall.journal, MemoryJournal):
        raise Misconfigured(
            "The memory journal is in the seller's own process, and only that can sweep it: "
            "set FAREGATE_JOURNAL to the journal that the workers share."
        )
    try:
        if arguments.watch:
            keep_sweeping(paywall, arguments.every, _told)
        else:
            _told(swept(paywall))
    except KeyboardInterrupt:
        pass
    finally:
        paywall.close()
    return 0


def swept(paywall: Paywall) -> str:
    """One walk, and how many sales it looked at. Raises `JournalError`."""
    rows = paywall.sweep()
    return f"Looked at {rows} {'sale' if rows == 1 else 'sales'}."


def keep_sweeping(paywall: Paywall, every: float, tell: Callable[[str], object]) -> None:
    """One walk every so many seconds, for ever: what is wrong with the journal is told, and may pass."""
    while True:
        try:
            tell(swept(paywall))
        except JournalError as error:
            tell(f"The journal failed: {error}")
        time.sleep(every)


def _told(sentence: str) -> None:
    print(sentence, flush=True)
