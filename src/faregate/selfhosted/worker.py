"""Settlement workers: take a payment that is due, make one attempt to settle it, and take the next.

Any number of workers, in any number of processes, may work on one database: a payment is leased to one of
them. A worker that dies leaves a lease that ends, and an attempt that is written down.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from faregate.selfhosted.settlements import AttemptObserver, SettledEvents, run_watched
from faregate.service.records import FINAL, Transaction
from faregate.service.steps import Backend, Steps

IDLE_SECONDS: Final = 0.5
"""From one look for due payments to the next, while there are none."""
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_log = logging.getLogger("faregate.service")


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt to make: its steps, and what performs them."""

    transaction_id: str
    attempt: Steps[Transaction]
    backend: Backend


class Jobs(Protocol):
    """The due payments of all accounts."""

    def take(self) -> Job | None:
        """Lease a due payment; None if there is none. Raises `DatabaseError`."""
        ...


class Worker:
    """Settles what is due until `stop` is set. An attempt that has begun is finished first."""

    def __init__(
        self,
        jobs: Jobs,
        stop: threading.Event,
        *,
        events: SettledEvents,
        observe: AttemptObserver,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._jobs, self._stop = jobs, stop
        self._events, self._observe = events, observe
        self._idle_seconds = idle_seconds
        self._pause = _FIRST_PAUSE

    def run(self) -> None:
        """Work until `stop` is set. Raises nothing: a database that is away is asked again."""
        while not self._stop.is_set():
            try:
                is_idle = not self.work_once()
            except Exception as error:
                _log.warning("a worker waits %.0f s: %s", self._pause, error)
                self._stop.wait(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_PAUSE)
                continue
            self._pause = _FIRST_PAUSE
            if is_idle:
                self._stop.wait(self._idle_seconds)

    def work_once(self) -> bool:
        """Make one attempt; return whether one was due."""
        job = self._jobs.take()
        if job is None:
            return False
        try:
            found = run_watched(job.attempt, job.transaction_id, job.backend, self._observe)
        except Exception:
            # Its lease ends, and whoever takes it then looks at the chain first.
            _log.exception("an attempt to settle %s was interrupted", job.transaction_id)
            return True
        if found.status in FINAL:
            self._events.announce(job.transaction_id)
        return True


class Repeater:
    """Calls a function every so many seconds until `stop` is set, and survives its errors."""

    def __init__(self, name: str, work: Callable[[], object], stop: threading.Event, seconds: float) -> None:
        self._name, self._work, self._stop, self._seconds = name, work, stop, seconds

    def run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work()
            except Exception as error:
                _log.warning("%s failed: %s", self._name, error)
            self._stop.wait(self._seconds)
