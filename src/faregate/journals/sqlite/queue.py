"""A fair lock with batching: first come, first served, and its holder may do the work of those who wait.

`threading.Lock` would not do, because of signals. A handler that raises right after the lock was acquired,
and before the caller could note it, leaves it locked for ever. Here the lock itself records who holds it, so
releasing is safe whatever was interrupted, and may be repeated.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Waiter:
    """One attempt to get the lock. A new one may overtake those in the queue, but not an `exclusive` one.

    A waiter may be put into the holder's batch. It is `served` when the holder did its work.
    """

    __slots__ = ("exclusive", "released", "served", "wakeup")

    def __init__(self, exclusive: bool = False) -> None:
        self.exclusive = exclusive
        self.served = self.released = False
        self.wakeup: threading.Lock | None = None

    def notify(self) -> None:
        if self.wakeup is not None and self.wakeup.locked():
            self.wakeup.release()


W = TypeVar("W", bound=Waiter)


class FairLock:
    """A lock with a queue. No code that holds `_mutex` waits for anything."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._mutex = threading.Lock()
        self._queue: deque[Waiter] = deque()
        self._batch: list[Waiter] = []
        self._holder: Waiter | None = None

    def run(self, waiter: Waiter, act: Callable[[], T]) -> T | None:
        """Run `act` with the lock held; None if another holder served `waiter`. Raises `TimeoutError`."""
        try:
            return act() if self.acquire(waiter) else None
        finally:
            try:
                self.release(waiter)
            except BaseException:  # a signal handler raised before the release was complete
                self.release(waiter)
                raise

    def acquire(self, waiter: Waiter) -> bool:
        """Wait for the lock; False if another holder served `waiter`. Call `release` in any case."""
        with self._mutex:
            if self._may_acquire(waiter):
                self._holder = waiter
                return True
            waiter.wakeup = threading.Lock()
            waiter.wakeup.acquire()
            self._queue.append(waiter)
        return self._wait(waiter, waiter.wakeup, time.monotonic() + self._timeout)

    def _may_acquire(self, waiter: Waiter) -> bool:
        queue = self._queue
        return self._holder is None and (not queue or queue[0] is waiter or not queue[0].exclusive)

    def _wait(self, waiter: Waiter, wakeup: threading.Lock, end: float) -> bool:
        timeout = self._timeout
        while True:
            notified = wakeup.acquire(timeout=timeout)
            with self._mutex:
                if waiter.served:
                    return False
                if waiter not in self._queue:
                    timeout = -1.0  # in a batch: its write may succeed, so it must not time out
                elif self._may_acquire(waiter):
                    self._queue.remove(waiter)
                    self._holder = waiter
                    return True
                elif not notified:
                    raise TimeoutError
                else:
                    timeout = max(0.0, end - time.monotonic())

    def release(self, waiter: Waiter) -> None:
        """End this attempt, whether it holds the lock, waits or was served. May be repeated."""
        with self._mutex:
            waiter.released = True
            if waiter in self._queue:
                self._queue.remove(waiter)
            if self._holder is waiter:
                self._requeue_batch()
            if self._holder is None and self._queue:
                self._queue[0].notify()

    # For the holder

    def has_waiting(self, predicate: Callable[[Waiter], bool]) -> bool:
        with self._mutex:
            return any(map(predicate, self._queue))

    def take_batch(self, kind: type[W], predicate: Callable[[W], bool]) -> list[W]:
        """Move matching waiters from the queue into the batch. Those not served by `release` are requeued."""
        batch: list[W] = []
        rest: deque[Waiter] = deque()
        with self._mutex:
            for waiter in self._queue:
                if isinstance(waiter, kind) and predicate(waiter):
                    batch.append(waiter)
                else:
                    rest.append(waiter)
            self._queue, self._batch = rest, [*batch]
        return batch

    def finish_batch(self) -> None:
        """Mark the waiters of the batch as served, and wake them."""
        with self._mutex:
            for waiter in self._batch:
                waiter.served = True
                waiter.notify()

    def _requeue_batch(self) -> None:
        unserved = deque(waiter for waiter in self._batch if not waiter.served and not waiter.released)
        for waiter in unserved:
            waiter.notify()
        unserved.extend(self._queue)
        self._queue, self._batch, self._holder = unserved, [], None
