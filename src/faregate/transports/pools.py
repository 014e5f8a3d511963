"""Where connections are kept: made at first use, once per process, or per process and event loop.

No lock: after a fork it might be held for ever by a thread that does not exist in the child. Two
threads may both make a pool; one is kept, the other closed before it was used.
"""

import os
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import sniffio

if TYPE_CHECKING:
    from faregate.transports.messages import Origin

P = TypeVar("P")
C = TypeVar("C", bound="Reusable")


# A pool belongs to a process id: uWSGI forks, and does not call what `os.register_at_fork` was given.


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
        # A pool that was never closed must leave no socket behind either.
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

    Each lives in an async generator: an event loop closes its open ones when it ends, and an
    unreferenced generator is closed by the loop that started it.
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


class Reusable(Protocol):
    """A connection, between two calls."""

    @property
    def origin(self) -> "Origin": ...

    def is_stale(self) -> bool: ...

    def can_start(self) -> bool: ...


class IdleStack(Generic[C]):
    """Connections that no call uses. The one used last is taken first, so that the others can grow old.

    Usually one look is enough. A connection that is old, stale or of another origin waits for `pop_unused`.
    """

    def __init__(self, keep_seconds: float) -> None:
        self._keep_seconds = keep_seconds
        # Oldest first. Each method of a deque is atomic, so threads need no lock.
        self._idle: deque[tuple[float, C]] = deque()
        self._unused: deque[C] = deque()
        self._is_closed = False

    def take(self, origin: "Origin") -> C | None:
        """A connection to `origin` for one call, if there is one."""
        try:
            while self._idle:
                since, connection = self._idle.pop()
                is_young = monotonic() - since <= self._keep_seconds
                if is_young and connection.origin == origin and not connection.is_stale():
                    return connection
                self._unused.append(connection)
        except IndexError:  # another thread took the last one
            pass
        return None

    def put(self, connection: C) -> None:
        """Give back a connection after its call."""
        if connection.can_start():
            self._idle.append((monotonic(), connection))
        else:
            self._unused.append(connection)

    def pop_unused(self) -> C | None:
        """A connection to close: of no more use, or idle for too long; any, if the stack is closed."""
        try:
            if self._unused:
                return self._unused.popleft()
            if self._idle:
                since, connection = self._idle.popleft()
                if self._is_closed or monotonic() - since > self._keep_seconds:
                    return connection
                self._idle.appendleft((since, connection))
        except IndexError:  # as in `take`
            pass
        return None

    def mark_closed(self) -> None:
        """From now on `pop_unused` gives every connection."""
        self._is_closed = True


def on_trio() -> bool:
    return sniffio.current_async_library() == "trio"


def current_run() -> object:
    """Return an object that identifies the running event loop."""
    if not on_trio():
        from asyncio import get_running_loop

        return get_running_loop()
    import trio

    return trio.lowlevel.current_trio_token()


def _is_over(run: object) -> bool:
    from asyncio import AbstractEventLoop

    return isinstance(run, AbstractEventLoop) and run.is_closed()
