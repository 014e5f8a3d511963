"""Wait for what other threads and processes do."""

import time
from collections.abc import Callable

PATIENCE = 30.0
"""Seconds: a busy machine may be slow. Only a test that fails waits so long."""


def eventually(check: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Return whether it comes true in time."""
    end, pause = time.monotonic() + seconds, 0.001
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return True
