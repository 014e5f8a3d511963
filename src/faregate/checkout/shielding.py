"""Run work that survives the cancellation of its request, and wait for all of it.

This module has the mechanics only. What happens when a payer disconnects is decided in
`asgi.py::PaywallMiddleware._serve_http`: a request with a payment runs here, and one without is cancelled
with its client. `PaywallResponder.receive` (`asgi_responder.py`) keeps the disconnect from the handler.

Under asyncio a shielded scope of anyio would not do: servers cancel the request's task natively, and at the
end of their loop all tasks. So a request runs in a task of its own, and that task puts off what would cancel
it while it completes a payment. Under trio tasks are cancelled by scopes alone, and a shield holds those off.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar, copy_context
from typing import Any, cast

import anyio
import anyio.lowlevel
from anyio.lowlevel import RunVar

from faregate.checkout.context_variables import run_in_context

Work = Callable[[], Coroutine[Any, Any, None]]

# The event loop keeps weak references only: without this set, a task can be collected while it runs.
_tasks: set["_Task"] = set()
_running_under_trio: RunVar[set[anyio.Event]] = RunVar("faregate shielded")
"""One event for each work, set when it ends."""


async def run_shielded(work: Work) -> None:
    """Run `work` to its end, in a task of its own. Cancelling the caller does not cancel it."""
    loop = _find_loop()
    if loop is None:
        with anyio.CancelScope(shield=True):
            # A task of asyncio has a context of its own.
            await run_in_context(copy_context(), _track(work))
        return
    ended = loop.create_future()
    task = _Task(_run(work, ended), loop=loop)
    _tasks.add(task)
    task.add_done_callback(lambda _: _finish(task, ended))
    await ended
    task.result()


async def _run(work: Work, ended: asyncio.Future[None]) -> None:
    try:
        await work()
    finally:
        if not ended.done():  # here, because a callback of the task would come one turn of the loop later
            ended.set_result(None)


def _finish(task: "_Task", ended: asyncio.Future[None]) -> None:
    _tasks.discard(task)
    if not ended.done():  # the task was cancelled before it began
        ended.set_result(None)
    elif not task.cancelled():
        task.exception()  # the caller may have left; asyncio logs an exception that is never retrieved


async def run_uncancelled(work: Work) -> None:
    """Run `work` to its end, in the task of `run_shielded` if possible; a cancellation waits for the end."""
    task = _find_task()
    if not isinstance(task, _Task):
        await run_shielded(work)
        return
    with make_scope(shield=True):
        task.is_putting_off, token = True, _uncancelled_work.set(task)
        try:
            await work()
        finally:
            _uncancelled_work.reset(token)
            task.is_putting_off = False
    await task.catch_up()


async def wait_shielded() -> None:
    """Wait for everything that runs to its end in this event loop."""
    await anyio.lowlevel.checkpoint()  # work that was about to begin begins first
    loop = _find_loop()
    if loop is None:
        while running := _get_running_under_trio():
            await next(iter(running)).wait()
        return
    while running_here := [task for task in list(_tasks) if task.get_loop() is loop]:
        await asyncio.wait(running_here)


async def _track(work: Work) -> None:
    running, ended = _get_running_under_trio(), anyio.Event()
    running.add(ended)
    try:
        await work()
    finally:
        running.discard(ended)
        ended.set()


def _get_running_under_trio() -> set[anyio.Event]:
    try:
        return _running_under_trio.get()
    except LookupError:
        running = set[anyio.Event]()
        _running_under_trio.set(running)
        return running


def make_scope(*, shield: bool = False) -> anyio.CancelScope:
    """Make a cancel scope. Its class, which anyio looks up for each scope, is looked up only once."""
    name = "trio" if _find_loop() is None else "asyncio"
    scope_class = _scope_classes.get(name)
    if scope_class is None:
        scope_class = _scope_classes[name] = type(anyio.CancelScope())
    return scope_class(shield=shield)


_scope_classes: dict[str, type[anyio.CancelScope]] = {}


def get_time() -> float:
    """`anyio.current_time`, by which the deadlines of scopes are counted."""
    loop = _find_loop()
    return anyio.current_time() if loop is None else loop.time()


def _find_loop() -> asyncio.AbstractEventLoop | None:
    """asyncio's loop; None under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_uncancelled_work: ContextVar["_Task | None"] = ContextVar("faregate uncancelled work", default=None)
"""The task whose work started the current code, timer or callback.

Timers, callbacks and tasks keep the context in which they were made. So a deadline that the work set for
itself, by anyio, asyncio or another library, differs from a cancellation that comes from elsewhere.
"""


class _Task(asyncio.Task[None]):
    """A task that knows how often it was cancelled by the code it runs itself, and can put off the rest."""

    own_cancels = 0
    is_putting_off = False
    _is_put_off = False

    def cancel(self, msg: Any | None = None) -> bool:
        # A loop that has stopped cancels all its tasks and waits for them: here it does not have to wait.
        is_own = _uncancelled_work.get() is self
        if self.is_putting_off and not is_own and self.get_loop().is_running():
            self._is_put_off = True
            return True
        if _find_task() is self:
            self.own_cancels += 1
        return super().cancel(msg)

    async def catch_up(self) -> None:
        """Apply the cancellation that was put off. Called by the task itself."""
        if self._is_put_off:
            self._is_put_off = False
            super().cancel()
            await asyncio.sleep(0)
        await anyio.lowlevel.checkpoint_if_cancelled()


async def raise_pending_cancellation() -> None:
    """Raise a cancellation that came while the handler ran, before work that may not be interrupted."""
    task = _find_task()
    if task is not None and task.cancelling():
        await asyncio.sleep(0)


def is_cancelled_from_outside(error: BaseException) -> bool:
    """Whether this task was cancelled from outside; False if the handler raised the cancellation itself."""
    cancelled_class = _get_cancelled_class()
    if not any(isinstance(leaf, cancelled_class) for leaf in _flatten(error)):
        return False
    task = _find_task()
    # On trio only a scope can raise this error.
    if cancelled_class is not asyncio.CancelledError:
        return True
    return task is not None and task.cancelling() > _count_own_cancels(task)


def is_cancelled_by_itself() -> bool:
    """Whether the code that this task runs cancelled it."""
    task = _find_task()
    return task is not None and _count_own_cancels(task) > 0


def _flatten(error: BaseException) -> Iterator[BaseException]:
    yield error
    if isinstance(error, BaseExceptionGroup):
        for member in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _flatten(member)


def _count_own_cancels(task: asyncio.Task[Any]) -> int:
    return task.own_cancels if isinstance(task, _Task) else 0


def _get_cancelled_class() -> type[BaseException]:
    try:
        return anyio.get_cancelled_exc_class()
    except RuntimeError:  # a thread without an event loop
        return asyncio.CancelledError


def _find_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # trio
        return None
