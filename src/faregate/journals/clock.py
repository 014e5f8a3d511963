"""Use the time of the store that machines share: their own clocks need not agree.

The server is asked now and then; in between, its time is reckoned on with a clock of this machine that
never jumps. Half of what an asking takes is unknown: its answer may be that much off.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from faregate.errors import JournalError

EVERY = 60.0


class _Sample(NamedTuple):
    """What the server's clock is ahead of ours, within `error`."""

    ahead: float
    error: float


class ServerClock:
    """Gives seconds. `ask` gives the server's, and may raise `JournalError`.

    Threads and forks need no lock here: at worst, two ask at once.
    """

    def __init__(self, ask: Callable[[], float], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._sample: _Sample | None = None
        self._ask_at = 0.0

    def __call__(self) -> float:
        sample = self._sample
        if sample is None or self._monotonic() >= self._ask_at:
            sample = self._asked(sample)
        return self._monotonic() + sample.ahead

    def _asked(self, known: _Sample | None) -> _Sample:
        """A server that does not answer now is asked again later: what is known still holds."""
        before = self._monotonic()
        self._ask_at = before + EVERY
        try:
            there = self._ask()
        except JournalError:
            if known is None:
                raise
            return known
        after = self._monotonic()
        found = _Sample(there - (before + after) / 2, (after - before) / 2)
        self._sample = _better(known, found)
        return self._sample


def _better(known: _Sample | None, found: _Sample) -> _Sample:
    """The surer of the two, unless they contradict each other: then a clock was set, or drifted away."""
    if known is None:
        return found
    agree = abs(known.ahead - found.ahead) <= known.error + found.error
    return known if agree and known.error < found.error else found
