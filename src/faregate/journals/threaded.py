"""Use a blocking journal from an event loop: each call runs in a thread."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import anyio
from anyio.lowlevel import RunVar

from faregate.core.claims import Claim, Claimant, Lease, PendingPayment
from faregate.core.interfaces import Journal
from faregate.core.models import Outcome
from faregate.errors import JournalError

T = TypeVar("T")
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a blocking call in a thread, and awaits its result."""

MAX_THREADS = 8
THREAD_TIMEOUT = 20.0
"""Seconds that a call waits for a free thread: a store that hangs occupies them all."""
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("faregate journal threads")


@runtime_checkable
class SupportsAsync(Protocol):
    """A blocking journal that has a form for event loops."""

    def as_async(self) -> Journal: ...


def as_async(journal: Journal) -> Journal:
    """Return the journal to use in an event loop: `journal` itself, unless it blocks."""
    return journal.as_async() if isinstance(journal, SupportsAsync) else journal


class ThreadedJournal:
    """Make each call of a blocking journal through `run` (`faregate.core.interfaces.Journal`)."""

    def __init__(self, journal: Journal, run: Run) -> None:
        self._journal = journal
        self._run = run

    def claim(self, proof: str, claimant: Claimant) -> Awaitable[Claim]:
        return self._run(partial(self._journal.claim, proof, claimant))

    def has_unknown_keys(self) -> Awaitable[bool]:
        return self._run(self._journal.has_unknown_keys)

    def record_transaction(
        self, lease: Lease, transaction_id: str, revision_id: str, seconds: float
    ) -> Awaitable[bool]:
        return self._run(
            partial(self._journal.record_transaction, lease, transaction_id, revision_id, seconds)
        )

    def record_pending(self, lease: Lease, transaction_id: str, revision_id: str) -> Awaitable[None]:
        return self._run(partial(self._journal.record_pending, lease, transaction_id, revision_id))

    def record_outcome(self, lease: Lease, outcome: Outcome) -> Awaitable[bool]:
        return self._run(partial(self._journal.record_outcome, lease, outcome))

    def schedule_retry(self, lease: Lease) -> Awaitable[bool]:
        return self._run(partial(self._journal.schedule_retry, lease))

    def mark_stuck(self, lease: Lease, reason: str) -> Awaitable[None]:
        return self._run(partial(self._journal.mark_stuck, lease, reason))

    def postpone(self, lease: Lease) -> Awaitable[None]:
        return self._run(partial(self._journal.postpone, lease))

    def record_settlement(
        self, lease: Lease, payment_response: str, receipt: str, delivered: bool
    ) -> Awaitable[bool]:
        return self._run(
            partial(self._journal.record_settlement, lease, payment_response, receipt, delivered)
        )

    def record_final(self, lease: Lease, paid: bool) -> Awaitable[None]:
        return self._run(partial(self._journal.record_final, lease, paid))

    def abandon_claim(self, lease: Lease) -> Awaitable[bool]:
        return self._run(partial(self._journal.abandon_claim, lease))

    def lease_next(self) -> Awaitable[PendingPayment | None]:
        return self._run(self._journal.lease_next)


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
