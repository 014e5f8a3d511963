"""Where connections are kept: made at first use, once per process, or per process and event loop.

No lock: after a fork it might be held for ever by a thread that does not exist in the child. Two
threads may both make a pool; one is kept, the other closed before it was used.
"""

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
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
    pool: P,
    close: Callable[[P], Awaitable[None]],
    owner: "weakref.ref[PerLoop[P]]",
    run: tuple[int, object],
) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        # The generator refers to its loop: forget it, or the loop would never be freed.
        if (pools := owner()) is not None:
            pools.forget(run)
        await close(pool)


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
