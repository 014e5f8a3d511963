"""Run a blocking journal in threads, for event loops."""

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
"""How an event loop has a blocking call made elsewhere, and waits for what it gives."""

THREADS = 8
WAIT = 20.0
"""For so many seconds a call waits until one of them is free: a store that hangs keeps them all."""
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("faregate journal threads")


@runtime_checkable
class Blocks(Protocol):
    """What a journal that blocks says of itself: there is another of it for event loops."""

    def awaiting(self) -> Journal: ...


def for_loops(journal: Journal) -> Journal:
    """The journal to use in an event loop: `journal` itself unless it blocks."""
    return journal.awaiting() if isinstance(journal, Blocks) else journal


class ThreadedJournal:
    """Each call of a blocking journal, made by `run`.

    What it gives is awaited (`core.interfaces.Journal`).
    """

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


async def in_a_thread(call: Callable[[], T]) -> T:
    """A few threads of the journal's own: handlers that fill the loop's thread pool do not hold it up.

    Raises `JournalError` if none gets free.
    """
    limiter, caller = _limiter_of_loop(), object()
    try:
        with anyio.fail_after(WAIT):
            await limiter.acquire_on_behalf_of(caller)
    except TimeoutError:
        raise JournalError(f"the journal kept its {THREADS} threads waiting for {WAIT:g} seconds") from None
    try:
        return await anyio.to_thread.run_sync(call, limiter=anyio.CapacityLimiter(1))
    finally:
        limiter.release_on_behalf_of(caller)


def _limiter_of_loop() -> anyio.CapacityLimiter:
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
    return limiter
