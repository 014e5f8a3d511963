"""Settle payments: in the request that completes them, for a limited time, and later in background workers.

This module decides which thread runs an attempt, and how long a request waits for it. What an attempt does
is in `rules/settlement.py`, and its rows are in `service/database/attempts.py`. The next attempt is due when
`AttemptSchedule.get_retry` says; after an interruption, when the lease ends.

An attempt may take as long as a facilitator and a chain do. So the attempt of a completion runs in a pool of
threads. It goes on after the completion was answered 202; if it is interrupted, a worker repeats it.

Any number of workers, in any number of processes, may work on one database: a payment is leased to one of
them. If a worker dies, its lease ends, and its attempt is in the database.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from faregate.rules.dependencies import AttemptResult, Dependencies, SettleFunction
from faregate.rules.payments import Attempt
from faregate.rules.records import FINAL, PENDING, Transaction
from faregate.rules.settlement import run_attempt
from faregate.service.log_format import FIELDS, log_context

_POLL_SECONDS: Final = 0.5
"""How often the database is asked whether a worker of another process has settled a payment."""
IDLE_SECONDS: Final = 0.5
"""From one look for due payments to the next, while there are none."""
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_log = logging.getLogger("faregate.service")
AttemptObserver = Callable[[str], None]
"""Called with the result of each attempt to settle."""
RoundObserver = Callable[[], None]
"""Called after each round of a loop, also after one that failed."""


def run_observed(settlement: SettleFunction, deps: Dependencies, observe: AttemptObserver) -> Transaction:
    """Run a settlement; count and log its attempt. It makes none if another worker holds the lease."""
    began = time.monotonic()

    def end(result: AttemptResult, transaction: Transaction) -> None:
        observe(result)
        _log_attempt(result, transaction, time.monotonic() - began)

    return settlement(replace(deps, observe=end))


def _log_attempt(result: AttemptResult, transaction: Transaction, seconds: float) -> None:
    settled = transaction.settled
    fields = {
        "transaction": transaction.id,
        "result": result,
        "status": transaction.status,
        "transaction_hash": settled.transaction_hash if settled else None,
        "seconds": round(seconds, 3),
    }
    # An application with the service inside has a format of its own, which shows no fields.
    _log.info("settlement attempt on %s: %s", transaction.id, result, extra={FIELDS: fields})


class CompletionWaiters:
    """Wakes the threads waiting for a payment once a thread of this process has ended it.

    Workers of other processes cannot wake them: each waiting thread also polls the database.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def wake(self, transaction_id: str) -> None:
        """Wake the threads that wait for this payment."""
        with self._lock:
            event = self._waiting.get(transaction_id)
        if event is not None:
            event.set()

    def wait(self, transaction_id: str, seconds: float) -> None:
        """Wait until a worker of this process ends the payment, or for `seconds`."""
        # The threads that wait for one payment share its event. Once the first of them has returned, the
        # others are not woken any more: they see the end of the payment at their next poll.
        with self._lock:
            event = self._waiting.setdefault(transaction_id, threading.Event())
        event.wait(seconds)
        with self._lock:
            self._waiting.pop(transaction_id, None)


class Settlements:
    """Runs the settlements of completions; `settle` serves as `Dependencies.settle`."""

    def __init__(
        self,
        *,
        threads: int,
        complete_seconds: float,
        waiters: CompletionWaiters,
        observe: AttemptObserver,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, "faregate-settlement")
        self._threads, self._running = threads, set[Future[Transaction]]()
        # `threads` is the number of the server's request threads; the pool has as many of its own. At most
        # 3/4 of the server's may wait here. The rest stay free for calls that need not wait for a block, such
        # as access.
        self._may_wait = threading.Semaphore(max(1, 3 * threads // 4))
        self._seconds = complete_seconds
        self._waiters = waiters
        self._observe = observe
        self._clock = clock

    def settle(self, settlement: SettleFunction, transaction: Transaction, deps: Dependencies) -> Transaction:
        """Run a settlement; return the transaction as it stands when it has ended, or the time is over.

        If too many requests wait already, return the transaction as it stands now.
        """
        deadline = self._clock() + self._seconds
        # In the context of the request, so that log lines name its caller.
        running = self._pool.submit(copy_context().run, self._run, settlement, deps)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        latest = None
        if self._may_wait.acquire(blocking=False):
            try:
                latest = self._await_attempt(running, deadline)
                latest = None if latest is None else self._await_end(latest, deadline, deps)
            finally:
                self._may_wait.release()
        return latest or deps.store.find_transaction(transaction.id) or transaction

    def has_free_thread(self) -> bool:
        """Return whether a settlement would begin at once. Two callers may count on the same thread."""
        return len(self._running) < self._threads

    def wait(self, transaction: Transaction, deps: Dependencies) -> Transaction:
        """Wait for a payment that another call completes; return the transaction as it then stands.

        It waits no longer than that call, and not at all if too many requests wait already.
        """
        since = transaction.submitted_at
        waited = 0.0 if since is None else (deps.store.now() - since).total_seconds()
        deadline = self._clock() + self._seconds - max(0.0, waited)
        if self._may_wait.acquire(blocking=False):
            try:
                return self._await_end(transaction, deadline, deps)
            finally:
                self._may_wait.release()
        return transaction

    def _await_end(self, transaction: Transaction, deadline: float, deps: Dependencies) -> Transaction:
        while transaction.status in PENDING and (left := deadline - self._clock()) > 0:
            self._waiters.wait(transaction.id, min(left, _POLL_SECONDS))
            transaction = deps.store.find_transaction(transaction.id) or transaction
        return transaction

    def settle_here(
        self, settlement: SettleFunction, transaction: Transaction, deps: Dependencies
    ) -> Transaction:
        """Run, in this thread, a settlement that needs no network. A rule may put it off."""
        return run_observed(settlement, deps, self._observe)

    def close(self) -> None:
        """Wait for the attempts that run. Those that have not begun are due for a worker."""
        self._pool.shutdown(cancel_futures=True)

    def _await_attempt(self, running: "Future[Transaction]", deadline: float) -> Transaction | None:
        try:
            return running.result(max(0.0, deadline - self._clock()))
        except FutureTimeout:
            return None

    def _run(self, settlement: SettleFunction, deps: Dependencies) -> Transaction:
        try:
            settled = run_observed(settlement, deps, self._observe)
        except Exception:
            # No request may be waiting any more. The payment is due again when its lease ends.
            _log.exception("an attempt to settle was interrupted")
            raise
        if settled.status in FINAL:
            self._waiters.wake(settled.id)
        return settled


# Workers


@dataclass(frozen=True, slots=True)
class Job:
    """An attempt that has begun, and what it works on."""

    transaction: Transaction
    attempt: Attempt
    deps: Dependencies
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """What names the account in log lines."""


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
        waiters: CompletionWaiters,
        observe: AttemptObserver,
        observe_round: RoundObserver,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._jobs, self._stop = jobs, stop
        self._waiters, self._observe = waiters, observe
        self._observe_round = observe_round
        self._idle_seconds = idle_seconds
        self._pause = _FIRST_PAUSE

    def run(self) -> None:
        """Work until `stop` is set. Raises nothing: a database that is away is asked again."""
        while not self._stop.is_set():
            try:
                is_idle = not self.work_once()
            except Exception as error:
                _log.warning("a worker waits %.0f s: %s", self._pause, error)
                self._observe_round()
                self._stop.wait(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_PAUSE)
                continue
            self._observe_round()
            self._pause = _FIRST_PAUSE
            if is_idle:
                self._stop.wait(self._idle_seconds)

    def work_once(self) -> bool:
        """Make one attempt; return whether one was due."""
        job = self._jobs.take()
        if job is None:
            return False
        with log_context({**job.fields, "transaction": job.transaction.id}):
            self._attempt(job)
        return True

    def _attempt(self, job: Job) -> None:
        try:
            attempt = partial(run_attempt, job.transaction, job.attempt)
            settled = run_observed(attempt, job.deps, self._observe)
        except Exception:
            # Its lease ends, and the process that takes it then looks at the chain first.
            _log.exception("an attempt to settle %s was interrupted", job.transaction.id)
            return
        if settled.status in FINAL:
            self._waiters.wake(settled.id)


class Repeater:
    """Calls a function every so many seconds until `stop` is set, and survives its errors."""

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        stop: threading.Event,
        seconds: float,
        *,
        observe_round: RoundObserver,
    ) -> None:
        self._name, self._work, self._stop, self._seconds = name, work, stop, seconds
        self._observe_round = observe_round

    def run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work()
            except Exception as error:
                _log.warning("%s failed: %s", self._name, error)
            self._observe_round()
            self._stop.wait(self._seconds)
