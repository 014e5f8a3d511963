"""Where connections are kept: made at first use, once per process, or per process and event loop.

No lock: after a fork it might be held for ever by a thread that does not exist in the child. Two
threads may both make a pool; one is kept, the other closed before it was used.
"""

import asyncio
import os
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from time import monotonic
from typing import Generic, TypeVar

import sniffio

P = TypeVar("P")


class PerProcess(Generic[P]):
    """One `P` per process. A parent's is never used in a forked child: its sockets are shared."""

    def __init__(self, make: Callable[[], P], close: Callable[[P], None]) -> None:
        self._make = make
        self._close = close
        self._kept: dict[int, tuple[P, Callable[[], object]]] = {}

    def get(self) -> P:
        kept = self._kept.get(os.getpid())
        return self._open() if kept is None else kept[0]

    def _open(self) -> P:
        made = self._make()
        # Whoever forgets to close still leaves no socket behind.
        closing = weakref.finalize(self, self._close, made)
        kept = self._kept.setdefault(os.getpid(), (made, closing))
        if kept[0] is not made:
            closing()
        return kept[0]

    def close(self) -> None:
        kept = self._kept.pop(os.getpid(), None)
        if kept is not None:
            kept[1]()


class PerLoop(Generic[P]):
    """One `P` per process and event loop (asyncio or trio), gone when the loop is.

    Each lives in an async generator: an event loop closes its open ones when it ends, and a generator
    nobody refers to any more is closed by the loop that started it.
    """

    def __init__(self, make: Callable[[], P], close: Callable[[P], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._kept: dict[tuple[int, object], tuple[P, AsyncGenerator[None]]] = {}

    async def get(self) -> P:
        run = (os.getpid(), current_run())
        kept = self._kept.get(run)
        return await self._open(run) if kept is None else kept[0]

    async def _open(self, run: tuple[int, object]) -> P:
        for other in [key for key in self._kept if _is_over(key[1])]:
            del self._kept[other]
        pool = self._make()
        keeper = _keep(pool, self._close, weakref.ref(self), run)
        # Runs up to its yield without giving way, so no other task opens one meanwhile.
        await anext(keeper)
        self._kept[run] = (pool, keeper)
        return pool

    def forget(self, run: tuple[int, object]) -> None:
        self._kept.pop(run, None)

    async def close(self) -> None:
        kept = self._kept.get((os.getpid(), current_run()))
        if kept is not None:
            await kept[1].aclose()


async def _keep(
    pool: P, close: Callable[[P], Awaitable[None]], owner: "weakref.ref[PerLoop[P]]", run: tuple[int, object]
) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        # The generator refers to its loop: forget it, or the loop would never be freed.
        if (pools := owner()) is not None:
            pools.forget(run)
        await close(pool)


class PoolStack(Generic[P]):
    """Pools of one connection, each used by one call at a time; the one used last is taken first.

    One httpcore pool for all calls looks through all its connections at every step, and for each idle one
    through all of them again: at 64 calls at once that was six sevenths of a call's processor time.
    """

    def __init__(self, make: Callable[[], P], keep_seconds: float) -> None:
        self._make = make
        self._keep_seconds = keep_seconds
        # Oldest first. Each method of a deque is atomic, so threads need no lock.
        self._idle: deque[tuple[float, P]] = deque()
        self._is_closed = False

    def take(self) -> P:
        """A pool that no other call uses."""
        try:
            return self._idle.pop()[1]
        except IndexError:
            return self._make()

    def put(self, pool: P) -> None:
        """Give back what was taken."""
        self._idle.append((monotonic(), pool))

    def pop_unused(self) -> P | None:
        """A pool to close: one that has not been used for a while; any, if the stack is closed."""
        try:
            since, pool = self._idle.popleft()
        except IndexError:
            return None
        if self._is_closed or monotonic() - since > self._keep_seconds:
            return pool
        self._idle.appendleft((since, pool))
        return None

    def mark_closed(self) -> None:
        """Keep nothing from now on."""
        self._is_closed = True


def on_trio() -> bool:
    return sniffio.current_async_library() == "trio"


def current_run() -> object:
    """What stands for the running event loop."""
    if not on_trio():
        return asyncio.get_running_loop()
    import trio

    return trio.lowlevel.current_trio_token()


def _is_over(run: object) -> bool:
    return isinstance(run, asyncio.AbstractEventLoop) and run.is_closed()
