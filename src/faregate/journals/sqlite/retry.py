"""How to wait for what other processes write.

SQLite would wait by itself, in steps of up to a tenth of a second: who has waited longest then gets the file
last, and may never get it while others come and go.
"""

import random
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from faregate.journals.sqlite import errors

T = TypeVar("T")

_PAUSES = 0.0005, 0.0015
"""Seconds. About as long as others write; never the same, or who comes in step with them finds them there."""


def patiently(ask: Callable[[], T], patience: float) -> T:
    """What `ask` gives when nobody else has the file, for so many seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            return ask()
        except sqlite3.OperationalError as error:
            if not errors.is_busy(error) or time.monotonic() > end:
                raise
        time.sleep(random.uniform(*_PAUSES))  # noqa: S311
