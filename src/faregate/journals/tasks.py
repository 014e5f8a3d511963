"""The works that callers wait for: in threads, and in event loops."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from faregate.errors import FaregateError, JournalError

W = TypeVar("W")


class Task(Generic[W]):
    """The work of one caller. A store sets its result, or its error; each task needs an error of its own."""

    __slots__ = ("_begun", "error", "notify", "result", "wakes_in", "work")

    def __init__(self, work: W) -> None:
        self.work = work
        self.result: Any = None
        self.error: Exception | None = None
        self.notify: Callable[[], object]
        """Wakes the caller."""
        self.wakes_in: Callable[..., object] | None = None
        """Calls `notify` in the event loop of the caller, if there is one."""
        self._begun = threading.Lock()

    def try_begin(self) -> bool:
        """True once: either the writer begins the task, or its caller withdraws it."""
        return self._begun.acquire(blocking=False)

    def get_result(self) -> Any:
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # it refers to the caller's frame, which has this task: a cycle
        return self.result


class AsyncTask(Task[W]):
    """The work of a caller in asyncio, which awaits `answer`. Only the writer's thread may begin it."""

    __slots__ = ("_waiting", "answer", "deadline")

    def __init__(self, work: W, waiting: "WaitingLoop", deadline: float) -> None:
        super().__init__(work)
        self.wakes_in = waiting.loop.call_soon_threadsafe
        self.answer = waiting.loop.create_future()
        self.deadline = deadline
        self._waiting = waiting

    def try_begin(self) -> bool:
        return not self.answer.cancelled() and super().try_begin()

    def notify(self) -> None:
        self._waiting.tasks.pop(self, None)
        if self.answer.done():
            return
        if self.error is None:
            self.answer.set_result(self.result)
        else:
            self.answer.set_exception(self.error)


class WaitingLoop:
    """The tasks of one event loop that were not answered, oldest first, and one timer for all of them.

    What a turn of the loop adds is passed to the writer at its end: one wake-up, and one batch.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        submit: Callable[[list[Task[Any]]], None],
        timeout: float,
        make_error: Callable[[], JournalError],
    ) -> None:
        self.loop = loop
        self.tasks: dict[AsyncTask[Any], None] = {}
        self._added: list[Task[Any]] = []
        self._submit = submit
        self._timeout = timeout
        self._make_error = make_error
        self._has_timer = False

    def add(self, work: Any) -> "asyncio.Future[Any]":
        task = AsyncTask(work, self, self.loop.time() + self._timeout)
        self.tasks[task] = None
        if not self._added:
            self.loop.call_soon(self._submit_added)
        self._added.append(task)
        if not self._has_timer:
            self._has_timer = True
            self.loop.call_later(self._timeout, self._withdraw_late_tasks)
        return task.answer

    def _submit_added(self) -> None:
        added, self._added = self._added, []
        try:
            self._submit(added)
        except FaregateError as error:  # there is no thread
            for task in added:
                if task.try_begin():  # withdrawn: another thread may start later
                    task.error = type(error)(str(error))
                    task.notify()

    def _withdraw_late_tasks(self) -> None:
        now = self.loop.time()
        late = [task for task in self.tasks if task.deadline <= now]
        for task in late:
            if task.answer.cancelled():  # if it was not begun, nobody else forgets it
                self.tasks.pop(task)
            elif task.try_begin():
                task.error = self._make_error()
                task.notify()
        pending = [task.deadline for task in self.tasks if task.deadline > now]
        self._has_timer = bool(pending)
        if pending:
            self.loop.call_later(pending[0] - now, self._withdraw_late_tasks)


def answer_all(batch: list[Task[Any]]) -> None:
    """Wake each caller, and each event loop once: that is a system call."""
    by_loop: dict[Callable[..., object], list[Task[Any]]] = {}
    for task in batch:
        if task.wakes_in is None:
            task.notify()
        else:
            by_loop.setdefault(task.wakes_in, []).append(task)
    for call_in_loop, tasks in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and its callers with it
            call_in_loop(_notify_all, tasks)


def _notify_all(tasks: list[Task[Any]]) -> None:
    for task in tasks:
        task.notify()
