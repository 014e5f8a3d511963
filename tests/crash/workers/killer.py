"""Kill a seller's workers, one every few seconds, and stop one now and then for longer than its lease.

Or kill one at a fixed interval, and stop none.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from pathlib import Path

from faregate.journals.durations import DEFAULT_POLICY

BETWEEN = (1.5, 4.0)
STOPPED = DEFAULT_POLICY.owner_lease + 1.0
"""Seconds: where renewals decide, its lease is over by then, and somebody else has taken over."""
EVERY = 6
"""One event of so many is a stop."""


class Killer:
    """`parent` is the process that starts the workers. `deaths` are the times at which one was killed.

    `every` is the interval in seconds at which one is killed, and none is stopped; None for both in turn.
    """

    def __init__(self, parent: int, seed: int, until: float, every: float | None = None) -> None:
        self._parent = parent
        self._every = every
        self._chance = random.Random(f"killer {seed}")
        self._until = until
        self._stopped: int | None = None
        self.deaths: list[float] = []
        self.stops = 0

    async def run(self) -> None:
        """Until the time is up. What was stopped goes on then."""
        waking: asyncio.Task[None] | None = None
        event = 0
        while (pause := self._every or self._chance.uniform(*BETWEEN)) + time.monotonic() < self._until:
            await asyncio.sleep(pause)
            alive = [pid for pid in self._workers() if pid != self._stopped]
            if not alive:
                continue
            event += 1
            victim = self._chance.choice(alive)
            if self._every is None and event % EVERY == 2 and self._stopped is None:
                waking = asyncio.create_task(self._stop(victim))
            else:
                self.deaths += [time.monotonic()] * _tell(victim, signal.SIGKILL)
        if waking is not None:
            await waking

    async def _stop(self, pid: int) -> None:
        self._stopped = pid
        try:
            self.stops += _tell(pid, signal.SIGSTOP)
            await asyncio.sleep(STOPPED)
        finally:
            _tell(pid, signal.SIGCONT)
            self._stopped = None

    def _workers(self) -> list[int]:
        return [
            int(pid) for pid in Path(f"/proc/{self._parent}/task/{self._parent}/children").read_text().split()
        ]


def _tell(pid: int, what: signal.Signals) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)
        return True
    return False
