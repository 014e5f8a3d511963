"""One thread at a time performs what all callers ask for, in batches.

A batch is what was queued while the last one was performed. A store commits it with one sync, or sends it in
one round trip. It is performed by the writer's own thread, or by a thread that calls `perform`. Callers are
answered after the commit: a thread by its own lock, an event loop with one call per batch.
"""

import asyncio
import os
import queue
import sys
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeAlias, TypeVar

from faregate.errors import ConfigurationError, FaregateError, JournalError

W = TypeVar("W")

MAX_BATCH = 256
"""Nothing more is added to a batch that has so many. What one turn of a loop queued stays together."""


# What callers wait for: in threads, and in event loops


class Task(Generic[W]):
    """The work of one caller. A store sets its result, or its error; each task needs an error of its own."""

    __slots__ = ("_taken", "call_in_loop", "error", "notify", "result", "work")

    def __init__(self, work: W) -> None:
        self.work = work
        self.result: Any = None
        self.error: Exception | None = None
        self.notify: Callable[[], object]
        """Wakes the caller."""
        self.call_in_loop: Callable[..., object] | None = None
        """Calls a function in the event loop of the caller; None if a thread waits."""
        self._taken = threading.Lock()
        """By the writer, which begins the task, or by the caller, which withdraws it."""

    def try_begin(self) -> bool:
        """Take the task for the writer. False: it was taken before, or its caller has withdrawn it."""
        return self._taken.acquire(blocking=False)

    def withdraw(self) -> bool:
        """Keep the writer from beginning the task. False: it has begun."""
        return self._taken.acquire(blocking=False)

    def get_result(self) -> Any:
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # it refers to the caller's frame, which has this task: a cycle
        return self.result


class AsyncTask(Task[W]):
    """The work of a caller in asyncio, which awaits `answer`.

    The writer's thread performs the work, or the caller's event loop withdraws it.
    """

    __slots__ = ("_waiting", "answer", "deadline")

    def __init__(self, work: W, waiting: "WaitingLoop", deadline: float) -> None:
        super().__init__(work)
        self.call_in_loop = waiting.loop.call_soon_threadsafe
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
        except FaregateError as error:  # the writer's thread could not start
            for task in added:
                if task.withdraw():  # a thread that starts later must not perform it
                    task.error = type(error)(str(error))
                    task.notify()

    def _withdraw_late_tasks(self) -> None:
        now = self.loop.time()
        late = [task for task in self.tasks if task.deadline <= now]
        for task in late:
            if task.answer.cancelled():  # one that was not begun is removed only here
                self.tasks.pop(task)
            elif task.withdraw():
                task.error = self._make_error()
                task.notify()
        pending = [task.deadline for task in self.tasks if task.deadline > now]
        self._has_timer = bool(pending)
        if pending:
            self.loop.call_later(pending[0] - now, self._withdraw_late_tasks)


def answer_all(batch: list[Task[Any]]) -> None:
    """Wake each caller. Wake each event loop once, because that is a system call."""
    by_loop: dict[Callable[..., object], list[Task[Any]]] = {}
    for task in batch:
        if task.call_in_loop is None:
            task.notify()
        else:
            by_loop.setdefault(task.call_in_loop, []).append(task)
    for call_in_loop, tasks in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and its callers with it
            call_in_loop(_notify_all, tasks)


def _notify_all(tasks: list[Task[Any]]) -> None:
    for task in tasks:
        task.notify()


# The writer


class _Turn:
    """The turn to perform a batch."""

    __slots__ = ("lock", "waiting")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held by the thread that performs a batch."""
        self.waiting = deque[Task[Any]]()
        """The tasks of the threads that wait for the lock."""


_Queue: TypeAlias = "queue.SimpleQueue[list[Task[Any]] | None]"
_resetting: dict[int, threading.Lock] = {}
"""Locks by process id: while a process forks, one of its threads may hold the parent's lock."""


class Writer(Generic[W]):
    """Passes batches to `execute`: in a thread that starts with the first work, or in that of a caller.

    What was not begun after `timeout` seconds is withdrawn, never performed later, and raises `make_error()`;
    what was begun is waited for. If `execute` raises, all of its batch fail.
    """

    def __init__(
        self,
        execute: Callable[[Sequence[Task[W]]], None],
        timeout: float,
        make_error: Callable[[], JournalError],
    ) -> None:
        # Weak: the store owns its writer, and must be collected when it is no longer used.
        self._execute = weakref.WeakMethod(execute)
        self._timeout = timeout
        self._make_error = make_error
        self._reset()

    def _reset(self) -> None:
        """Start anew, as a forked child does: what was queued, and the thread, are the parent's."""
        # Reentrant: a signal handler may use the journal, too.
        self._submitting = threading.RLock()
        self._loops: dict[asyncio.AbstractEventLoop, WaitingLoop] = {}
        self._replace_queue()
        self._pid = os.getpid()  # last: other threads go on with what is new

    def _replace_queue(self) -> None:
        self._thread: _WriterThread | None = None
        self._turn = _Turn()
        # Looked up when it is needed: gevent may have replaced it since this module was imported.
        self._queue: _Queue = queue.SimpleQueue()
        weakref.finalize(self, self._queue.put, None).atexit = False

    def call(self, work: W) -> Any:
        """Perform `work` and wait for it. If a signal handler raises, what was begun is performed anyway."""
        task = Task(work)
        wakeup = threading.Lock()
        wakeup.acquire()
        task.notify = wakeup.release
        try:
            self._submit([task])
            if not wakeup.acquire(timeout=self._timeout):
                if task.withdraw():
                    raise self._make_error()
                wakeup.acquire()
        finally:
            task.withdraw()
        return task.get_result()

    def perform(self, work: W) -> Any:
        """Perform `work` in this thread, with what other callers wait for by then.

        A thread that comes meanwhile waits for its turn, and finds its work done, or performs it. No other
        thread is woken for a lone write. The main thread performs its own work only: what a signal handler
        raises there would end that of the others, too.
        """
        if self._pid != os.getpid():  # asked here, too: a lone write is short
            self._check_process()
        task, turn = Task(work), self._turn
        if not turn.lock.acquire(blocking=False):
            self._wait_and_perform(task, turn)
            return task.get_result()
        try:
            execute = self._execute()
            if execute is None or turn.waiting or not self._queue.empty():
                self._perform_batch(task, turn)
            else:
                execute([task])
        finally:
            turn.lock.release()
        return task.get_result()

    def _wait_and_perform(self, task: Task[W], turn: _Turn) -> None:
        task.notify = _wake_nothing
        turn.waiting.append(task)
        try:
            if not turn.lock.acquire(timeout=self._timeout):
                if task.withdraw():
                    raise self._make_error()
                turn.lock.acquire()
            try:
                if task.try_begin():  # else the thread that had the turn has done the work
                    self._perform_batch(task, turn)
            finally:
                turn.lock.release()
        finally:
            task.withdraw()

    def _perform_batch(self, task: Task[W], turn: _Turn) -> None:
        task.notify = _wake_nothing
        is_main = threading.current_thread() is threading.main_thread()
        batch = [task] if is_main else _take_batch(self._queue, turn.waiting, [task])
        _perform(batch, self._execute())

    def acall(self, work: W) -> Awaitable[Any]:
        """Perform `work` and await it. If the caller is cancelled, what was begun is performed anyway."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._call_in_trio(work)
        return (self._loops.get(loop) or self._add_loop(loop)).add(work)

    def _add_loop(self, loop: asyncio.AbstractEventLoop) -> WaitingLoop:
        for each in list(self._loops):  # a copy, made in one step: other threads add and remove theirs
            if each.is_closed():
                self._loops.pop(each, None)
        self._loops[loop] = waiting = WaitingLoop(loop, self._submit, self._timeout, self._make_error)
        return waiting

    async def _call_in_trio(self, work: W) -> Any:
        import trio

        answered, task = trio.Event(), Task(work)
        task.notify, task.call_in_loop = answered.set, trio.lowlevel.current_trio_token().run_sync_soon
        try:
            self._submit([task])
            with trio.move_on_after(self._timeout):
                await answered.wait()
            if not answered.is_set():
                if task.withdraw():
                    raise self._make_error()
                await answered.wait()
        finally:
            task.withdraw()
        return task.get_result()

    def stop(self) -> None:
        """End the thread when it has done what is queued. The next work starts another one."""
        self._check_process()
        with self._submitting:
            thread, queued = self._thread, self._queue
            self._replace_queue()  # the next thread must not take the None of this one
            queued.put(None)
        if thread is not None:
            thread.join(self._timeout)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            with _resetting.setdefault(os.getpid(), threading.Lock()):
                if self._pid != os.getpid():
                    self._reset()

    def _submit(self, tasks: list[Task[W]]) -> None:
        self._check_process()
        with self._submitting:
            self._queue.put(tasks)
            if self._thread is None or self._thread.has_ended:
                self._start()

    def _start(self) -> None:
        check_threads()
        self._thread = _WriterThread(self._queue, self._turn, self._execute)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._thread = None
            raise JournalError(f"the journal could not start its thread: {error}") from error


def check_threads() -> None:
    """Raises `ConfigurationError` on uWSGI without threads, where ours would never run."""
    uwsgi = sys.modules.get("uwsgi")
    options = getattr(uwsgi, "opt", None)
    if isinstance(options, dict) and "enable-threads" not in options and "threads" not in options:
        raise ConfigurationError("uWSGI runs no threads, which the journal needs: set enable-threads = true.")


class _WriterThread(threading.Thread):
    """Performs what is queued, until there is a None in the queue."""

    def __init__(self, tasks: _Queue, turn: _Turn, execute: "weakref.WeakMethod[Any]") -> None:
        super().__init__(name="faregate journal", daemon=True)
        self.has_ended = False
        self._queue = tasks
        self._turn = turn
        self._execute = execute

    def run(self) -> None:
        """Perform batches until there is a None. While it waits, it keeps no reference to the store."""
        try:
            while (first := self._queue.get()) is not None:
                with self._turn.lock:
                    batch = _take_batch(self._queue, self._turn.waiting, _begin(first))
                    if batch:
                        _perform(batch, self._execute())
                del first, batch
        except BaseException:
            self.has_ended = True  # what is queued from now on finds another thread
            while batch := _take_batch(self._queue, deque(), []):
                _perform(batch, None)
            raise


def _wake_nothing() -> None:
    """Answer a thread that waits for the turn: it gets that next."""


def _begin(tasks: Iterable[Task[Any]]) -> list[Task[Any]]:
    return [task for task in tasks if task.try_begin()]


def _take_batch(queued: _Queue, waiting: deque[Task[Any]], batch: list[Task[Any]]) -> list[Task[Any]]:
    """Begin what else is queued or waits for the turn, and add it."""
    while waiting and len(batch) < MAX_BATCH:
        batch += _begin([waiting.popleft()])
    # Asked first: mostly it is empty, and an exception for each batch takes longer.
    while len(batch) < MAX_BATCH and not queued.empty():
        try:
            tasks = queued.get_nowait()
        except queue.Empty:  # another thread, which follows one that ended, took the last
            break
        if tasks is None:
            queued.put(None)
            break
        batch += _begin(tasks)
    return batch


def _perform(batch: list[Task[Any]], execute: Callable[[Sequence[Task[Any]]], None] | None) -> None:
    try:
        if execute is None:
            raise JournalError("the thread of the journal has ended")
        execute(batch)
    except BaseException as error:
        # An error for each caller: raising one object in several threads would mix their tracebacks.
        kind = type(error) if isinstance(error, FaregateError) else JournalError
        for task in batch:
            task.error = kind(str(error))
            task.error.__cause__ = error
        if not isinstance(error, Exception):
            raise
    finally:
        answer_all(batch)
