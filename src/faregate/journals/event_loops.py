"""Use a blocking journal from an event loop.

If its store works in batches, the loop waits for the store's writer. Otherwise each call runs in a thread.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

import anyio
from anyio.lowlevel import RunVar

from faregate.core import driver
from faregate.core.claim_types import PendingPayment
from faregate.errors import JournalError
from faregate.journals.row_operations import Procedure, Run

if TYPE_CHECKING:
    # It needs cryptography, which a paywall with the memory journal does without.
    from faregate.journals.procedures import Procedures

T = TypeVar("T")
P = ParamSpec("P")


class Wrap(Protocol):
    """Makes an async function of a procedure."""

    def __call__(self, procedure: Callable[P, Procedure[T]], /) -> Callable[P, Awaitable[T]]: ...


MAX_THREADS = 8
THREAD_TIMEOUT = 20.0
"""Seconds that a call waits for a free thread: a store that hangs occupies them all."""
# A limiter of anyio belongs to one event loop.
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("faregate journal threads")


class BlockingCalls(Protocol):
    """The calls of a journal that are no procedures: they are rare, and may take long."""

    def has_unknown_keys(self) -> bool: ...

    def lease_next(self) -> PendingPayment | None: ...

    def remove_unfetched(self, limit: int) -> tuple[str, ...]: ...


class AsyncJournal:
    """The calls of a stored journal for event loops (`faregate.core.interfaces.Journal`)."""

    def __init__(self, journal: BlockingCalls, procedures: "Procedures", wrap: Wrap, run: Run) -> None:
        self.claim = wrap(procedures.claim)
        self.find_other_encoding = wrap(procedures.find_other_encoding)
        self.record_transaction = wrap(procedures.record_transaction)
        self.record_resumption = wrap(procedures.record_resumption)
        self.claim_transaction = wrap(procedures.claim_transaction)
        self.record_pending = wrap(procedures.record_pending)
        self.record_outcome = wrap(procedures.record_outcome)
        self.schedule_retry = wrap(procedures.schedule_retry)
        self.mark_stuck = wrap(procedures.mark_stuck)
        self.postpone = wrap(procedures.postpone)
        self.record_settlement = wrap(procedures.record_settlement)
        self.record_final = wrap(procedures.record_final)
        self.abandon_claim = wrap(procedures.abandon_claim)
        self._journal = journal
        self._run = run

    def has_unknown_keys(self) -> Awaitable[bool]:
        return self._run(self._journal.has_unknown_keys)

    def lease_next(self) -> Awaitable[PendingPayment | None]:
        return self._run(self._journal.lease_next)

    def remove_unfetched(self, limit: int) -> Awaitable[tuple[str, ...]]:
        return self._run(partial(self._journal.remove_unfetched, limit))


def wrap_in_threads(run: Run) -> Wrap:
    """Return what performs procedures on blocking rows: each in a thread, as a whole."""

    def wrap(procedure: Callable[P, Procedure[T]], /) -> Callable[P, Awaitable[T]]:
        return lambda *args, **kwargs: run(lambda: driver.run(procedure(*args, **kwargs)))

    return wrap


def wrap_in_batches(clock: Callable[[], float], run: Run) -> Wrap:
    """Return what performs procedures on the rows of a store that works in batches."""
    may_wait: Callable[[], bool] | None = getattr(clock, "may_wait", None)
    if may_wait is None:
        return driver.awaiting

    async def drive_with_fresh_time(procedure: Procedure[T]) -> T:
        # The clock may have to ask its server. Let a thread do that, so that the procedure finds a fresh
        # sample.
        await run(clock)
        return await driver.arun(procedure)

    def wrap(procedure: Callable[P, Procedure[T]], /) -> Callable[P, Awaitable[T]]:
        def call(*args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
            begun = procedure(*args, **kwargs)
            return drive_with_fresh_time(begun) if may_wait() else driver.arun(begun)

        return call

    return wrap


async def run_in_thread(call: Callable[[], T]) -> T:
    """Run `call` in one of a few threads of the journal's own. Raises `JournalError` if none gets free.

    Not in the loop's default pool: handlers that fill it, and wait for their payment to be recorded, would
    wait for each other.
    """
    # Acquired apart from the call, so that the timeout covers the queue alone. A call that has begun is never
    # given up: its write may succeed.
    limiter, caller = _get_limiter(), object()
    try:
        with anyio.fail_after(THREAD_TIMEOUT):
            await limiter.acquire_on_behalf_of(caller)
    except TimeoutError:
        raise JournalError(
            f"all {MAX_THREADS} threads of the journal were busy for {THREAD_TIMEOUT:g} seconds"
        ) from None
    try:
        # The slot is already acquired, so pass a limiter that never waits.
        return await anyio.to_thread.run_sync(call, limiter=anyio.CapacityLimiter(1))
    finally:
        limiter.release_on_behalf_of(caller)


def _get_limiter() -> anyio.CapacityLimiter:
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MAX_THREADS)
        _limiter.set(limiter)
    return limiter
