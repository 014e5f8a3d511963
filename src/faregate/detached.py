"""Work that nobody who waits for it can stop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

_running: set[asyncio.Task[None]] = set()


async def to_the_end(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `work`; who is cancelled while waiting for it leaves it running."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # trio: tasks are cancelled by scopes alone, and a shield holds those off
        with anyio.CancelScope(shield=True):
            await work()
        return
    task = loop.create_task(work())
    _running.add(task)
    task.add_done_callback(_running.discard)
    await asyncio.shield(task)


def is_cancelled_from_outside(ended: BaseException) -> bool:
    """Whether somebody asked this task to end; False for what a handler raised of its own accord."""
    if not isinstance(ended, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio, where nobody but a handler raises this error
        return False
    return task is not None and task.cancelling() > 0
