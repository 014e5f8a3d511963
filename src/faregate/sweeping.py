"""`faregate sweep`: finish what was interrupted or held while its payer is away."""

import time
from argparse import Namespace

from faregate.errors import Misconfigured
from faregate.journals.memory import MemoryJournal
from faregate.paywall import Paywall


def run_sweep(arguments: Namespace) -> int:
    """Walks over the journal that the environment names, once or until interrupted."""
    paywall = Paywall()
    if isinstance(paywall.journal, MemoryJournal):
        raise Misconfigured(
            "The memory journal is in the seller's own process, and only that can sweep it: "
            "set FAREGATE_JOURNAL to the journal that the workers share."
        )
    try:
        while True:
            rows = paywall.sweep()
            print(f"Looked at {rows} {'sale' if rows == 1 else 'sales'}.", flush=True)
            if not arguments.watch:
                return 0
            time.sleep(arguments.every)
    except KeyboardInterrupt:
        return 0
    finally:
        paywall.close()
