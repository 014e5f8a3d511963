"""Work that nobody who waits for it can stop, and waiting for all of it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
from anyio.lowlevel import RunVar

_tasks: set[asyncio.Task[None]] = set()
_here: RunVar[set[anyio.Event]] = RunVar("faregate detached")
"""What runs in this event loop: one event each, set when it ends."""


async def to_the_end(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `work`; who is cancelled while waiting for it leaves it running."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # trio: tasks are cancelled by scopes alone, and a shield holds those off
        with anyio.CancelScope(shield=True):
            await _counted(work)
        return
    task = loop.create_task(_counted(work))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    await asyncio.shield(task)


async def all_ended() -> None:
    """Wait for everything that runs to its end in this event loop."""
    await anyio.lowlevel.checkpoint()  # who was about to begin has begun then
    running = _running()
    while running:
        await next(iter(running)).wait()


async def _counted(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    running, ended = _running(), anyio.Event()
    running.add(ended)
    try:
        await work()
    finally:
        running.discard(ended)
        ended.set()


def _running() -> set[anyio.Event]:
    try:
        return _here.get()
    except LookupError:
        running = set[anyio.Event]()
        _here.set(running)
        return running


def is_cancelled_from_outside(ended: BaseException) -> bool:
    """Whether somebody asked this task to end; False for what a handler raised of its own accord."""
    if not isinstance(ended, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio, where nobody but a handler raises this error
        return False
    return task is not None and task.cancelling() > 0
