"""Run work that survives the cancellation of its request, and wait for all of it."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import anyio
import anyio.lowlevel
from anyio.lowlevel import RunVar

# The event loop keeps weak references only: a task that nobody else holds can be collected while it runs.
_tasks: set[asyncio.Task[None]] = set()
_running_here: RunVar[set[anyio.Event]] = RunVar("faregate shielded")
"""What runs in this event loop: one event each, set when it ends."""


async def run_shielded(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `work` to its end. Cancelling the caller does not cancel it.

    A shielded scope of anyio would not do under asyncio: servers cancel the request's task natively, and at
    the end of their loop all tasks.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # trio: tasks are cancelled by scopes alone, and a shield holds those off
        with anyio.CancelScope(shield=True):
            await _track(work)
        return
    task = _Task(_track(work), loop=loop)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    await asyncio.shield(task)


async def wait_shielded() -> None:
    """Wait for everything that runs to its end in this event loop."""
    await anyio.lowlevel.checkpoint()  # who was about to begin has begun then
    running = _get_running()
    while running:
        await next(iter(running)).wait()


async def _track(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    running, ended = _get_running(), anyio.Event()
    running.add(ended)
    try:
        await work()
    finally:
        running.discard(ended)
        ended.set()


def _get_running() -> set[anyio.Event]:
    try:
        return _running_here.get()
    except LookupError:
        running = set[anyio.Event]()
        _running_here.set(running)
        return running


class _Task(asyncio.Task[None]):
    """A task that knows how often it was cancelled by the code it runs itself."""

    own_cancels = 0

    def cancel(self, msg: Any | None = None) -> bool:
        if asyncio.current_task() is self:
            self.own_cancels += 1
        return super().cancel(msg)


def is_cancelled_from_outside(ended: BaseException) -> bool:
    """Whether this task was cancelled from outside; False if the handler raised the cancellation itself."""
    kind = _cancelled_class()
    if not any(isinstance(one, kind) for one in _flatten(ended)):
        return False
    task = _find_task()
    # On trio nobody but a scope can raise this error.
    return kind is not asyncio.CancelledError or (task is not None and task.cancelling() > _own_cancels(task))


def is_cancelled_by_itself() -> bool:
    """Whether the code that this task runs cancelled it."""
    task = _find_task()
    return task is not None and _own_cancels(task) > 0


def _flatten(error: BaseException) -> Iterator[BaseException]:
    yield error
    if isinstance(error, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _flatten(one)


def _own_cancels(task: asyncio.Task[Any]) -> int:
    return task.own_cancels if isinstance(task, _Task) else 0


def _cancelled_class() -> type[BaseException]:
    try:
        return anyio.get_cancelled_exc_class()
    except RuntimeError:  # a thread without an event loop
        return asyncio.CancelledError


def _find_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # trio
        return None
