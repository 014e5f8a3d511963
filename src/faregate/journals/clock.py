"""Use the time of the store that machines share: their own clocks need not agree.

The server is asked once a minute. In between, its time is computed from this machine's monotonic clock, which
never jumps. How much of a round trip was the way there is unknown, so a sample may be off by half of it.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from faregate.errors import JournalError

REFRESH_SECONDS = 60.0


class _Sample(NamedTuple):
    """How far the server's clock is ahead of the monotonic clock, within `error`. In seconds."""

    offset: float
    error: float


class ServerClock:
    """Call it for the server's time in seconds. `fetch_time` asks the server, and may raise `JournalError`.

    Threads and forks need no lock here: at worst, two ask at once.
    """

    def __init__(
        self, fetch_time: Callable[[], float], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch_time = fetch_time
        self._monotonic = monotonic
        self._sample: _Sample | None = None
        self._refresh_at = 0.0

    def __call__(self) -> float:
        sample = self._sample
        if sample is None or self._monotonic() >= self._refresh_at:
            sample = self._refresh(sample)
        return self._monotonic() + sample.offset

    def may_wait(self) -> bool:
        """Whether the next call may ask the server, and wait."""
        # Answer a little early. An event loop that expects the next call not to wait must not be made
        # to wait.
        return self._sample is None or self._monotonic() >= self._refresh_at - 0.1

    def _refresh(self, current: _Sample | None) -> _Sample:
        """Take a sample. If the server does not answer, the last one holds until the next try."""
        before = self._monotonic()
        # Set this before the call: while the server does not answer, only one call a minute waits for it.
        self._refresh_at = before + REFRESH_SECONDS
        try:
            server_time = self._fetch_time()
        except JournalError:
            if current is None:
                raise
            return current
        after = self._monotonic()
        new = _Sample(server_time - (before + after) / 2, (after - before) / 2)
        self._sample = _choose_sample(current, new)
        return self._sample


def _choose_sample(current: _Sample | None, new: _Sample) -> _Sample:
    """Choose the more precise one; the new one if they contradict each other: a clock was set, or drifted."""
    if current is None:
        return new
    agree = abs(current.offset - new.offset) <= current.error + new.error
    return current if agree and current.error < new.error else new
