"""The writer performs what threads and event loops ask for, in batches; each caller gets its own answer."""

import asyncio
import gc
import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any

import anyio
import pytest

from faregate.errors import ConfigurationError, JournalError, JournalUnreadable
from faregate.journals.writer import MAX_BATCH, Task, Writer
from tests.support.threads import join_threads, start_threads
from tests.support.waiting import eventually

LOOPS = ("asyncio", "trio")


class Echo:
    """A store that gives back what it is asked, or raises it. It can be held up."""

    def __init__(self, timeout: float = 20.0) -> None:
        self.batches: list[list[Any]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.writer: Writer[Any] = Writer(self.execute, timeout, lambda: JournalError("too busy"))

    def execute(self, batch: Sequence[Task[Any]]) -> None:
        self.batches.append([task.work for task in batch])
        assert self.may_go_on.wait(30)
        for task in batch:
            if isinstance(task.work, type) and issubclass(task.work, BaseException):
                raise task.work("all fail")
            if isinstance(task.work, Exception):
                task.error = task.work
            else:
                task.result = task.work

    async def ask(self, work: Any) -> Any:
        return await self.writer.acall(work)

    def hold_up(self) -> threading.Thread:
        """Let a work of another thread be in the middle of its batch."""
        self.may_go_on.clear()
        thread = threading.Thread(target=self.writer.call, args=["held up"])
        thread.start()
        assert eventually(lambda: self.batches != [])
        return thread


@pytest.fixture
def echo() -> Generator[Echo]:
    made = Echo()
    yield made
    made.may_go_on.set()
    made.writer.stop()


def test_threads_and_event_loops_share_a_batch(echo: Echo) -> None:
    answers: list[Any] = []

    async def ask(work: Any) -> None:
        answers.append(await echo.writer.acall(work))

    async def ask_all() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(ask, number)

    echo.hold_up()
    threads = start_threads(
        *(lambda loop=loop: anyio.run(ask_all, backend=loop) for loop in LOOPS),
        *(lambda number=number: answers.append(echo.writer.call(number)) for number in range(10)),
    )
    assert eventually(
        lambda: echo.writer._queue.qsize() == 10 + 10 + 1
    )  # asyncio submits all of a turn at once
    echo.may_go_on.set()
    join_threads(threads)
    assert sorted(answers) == sorted([*range(10)] * 3)
    assert [len(batch) for batch in echo.batches] == [1, 30]


def test_a_batch_is_bounded(echo: Echo) -> None:
    echo.hold_up()
    threads = start_threads(*(lambda: echo.writer.call(1) for _ in range(MAX_BATCH + 1)))
    assert eventually(lambda: echo.writer._queue.qsize() == MAX_BATCH + 1)
    echo.may_go_on.set()
    join_threads(threads)
    assert [len(batch) for batch in echo.batches] == [1, MAX_BATCH, 1]


def test_an_error_is_its_callers_alone(echo: Echo) -> None:
    with pytest.raises(LookupError):
        echo.writer.call(LookupError())
    assert echo.writer.call("next") == "next"


@pytest.mark.parametrize(
    ("kind", "raised"),
    [(ValueError, JournalError), (JournalUnreadable, JournalUnreadable), (MemoryError, JournalError)],
)
def test_what_a_store_raises_is_an_error_for_each_of_the_batch(
    echo: Echo, kind: type[Exception], raised: type[JournalError]
) -> None:
    held, errors = echo.hold_up(), list[Exception]()

    def ask(work: Any) -> None:
        with pytest.raises(raised, match="all fail") as caught:
            echo.writer.call(work)
        errors.append(caught.value)

    threads = start_threads(lambda: ask(kind), lambda: ask("another"))
    assert eventually(lambda: echo.writer._queue.qsize() == 2)
    echo.may_go_on.set()
    join_threads([held, *threads])
    assert len({id(error) for error in errors}) == 2
    assert echo.writer.call("next") == "next"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_when_the_thread_ends_all_who_wait_get_an_error_and_the_next_work_starts_another(echo: Echo) -> None:
    echo.hold_up()
    dying = echo.writer._thread
    assert dying is not None
    errors: list[str] = []

    def ask(work: Any) -> None:
        with pytest.raises(JournalError) as caught:
            echo.writer.call(work)
        errors.append(str(caught.value))

    calls = [lambda: ask(SystemExit), *[lambda: ask("queued")] * MAX_BATCH]
    threads = start_threads(*calls)
    assert eventually(lambda: echo.writer._queue.qsize() == len(calls))
    echo.may_go_on.set()
    join_threads(threads)
    assert len(errors) == len(calls)
    assert "too busy" not in errors
    assert echo.writer.call("next") == "next"
    dying.join()  # so that its exception is this test's


# Waiting


def test_what_a_thread_gave_up_is_never_performed() -> None:
    echo = Echo(timeout=0.2)
    held = echo.hold_up()
    with pytest.raises(JournalError, match="too busy"):
        echo.writer.call("late")
    echo.may_go_on.set()
    held.join()
    assert echo.writer.call("next") == "next"
    assert echo.batches == [["held up"], ["next"]]
    echo.writer.stop()


@pytest.mark.parametrize("loop", LOOPS)
def test_what_an_event_loop_gave_up_is_never_performed(loop: str) -> None:
    echo = Echo(timeout=0.2)
    held = echo.hold_up()

    async def ask() -> None:
        with pytest.raises(JournalError, match="too busy"):
            await echo.writer.acall("late")
        echo.may_go_on.set()
        held.join()
        assert await echo.writer.acall("next") == "next"

    anyio.run(ask, backend=loop)
    assert echo.batches == [["held up"], ["next"]]
    echo.writer.stop()


@pytest.mark.parametrize("loop", LOOPS)
def test_what_has_begun_is_waited_for_longer_than_the_timeout(loop: str) -> None:
    echo = Echo(timeout=0.2)
    echo.may_go_on.clear()

    async def ask() -> None:
        assert await echo.writer.acall("slow") == "slow"

    threading.Timer(0.5, echo.may_go_on.set).start()
    anyio.run(ask, backend=loop)
    echo.may_go_on.clear()
    threading.Timer(0.5, echo.may_go_on.set).start()
    assert echo.writer.call("slow") == "slow"
    echo.writer.stop()


@pytest.mark.parametrize("loop", LOOPS)
def test_a_cancelled_work_is_withdrawn_unless_it_has_begun(loop: str, echo: Echo) -> None:
    echo.may_go_on.clear()

    async def ask() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(echo.ask, "begun")
            while not echo.batches:
                await anyio.sleep(0.001)
            tasks.start_soon(echo.ask, "queued")
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        echo.may_go_on.set()
        assert await echo.writer.acall("next") == "next"

    anyio.run(ask, backend=loop)
    assert echo.batches == [["begun"], ["next"]]


@pytest.mark.parametrize("loop", LOOPS)
def test_an_answer_for_a_loop_that_has_ended_is_dropped(loop: str, echo: Echo) -> None:
    echo.may_go_on.clear()

    async def leave() -> None:
        with anyio.move_on_after(0.1):
            await echo.writer.acall("left")

    anyio.run(leave, backend=loop)
    echo.may_go_on.set()
    assert echo.writer.call("next") == "next"


# The thread


def test_one_thread_serves_two_loops_and_is_a_daemon(echo: Echo) -> None:
    for _ in range(2):
        asyncio.run(echo.ask(1))
    [thread] = [each for each in threading.enumerate() if each is echo.writer._thread]
    assert thread.daemon


def test_it_starts_with_the_first_work_and_ends_with_its_store() -> None:
    before = set(threading.enumerate())
    echo = Echo()
    assert set(threading.enumerate()) == before
    echo.writer.call(1)
    [thread] = set(threading.enumerate()) - before
    del echo
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


def test_it_can_be_stopped_and_started_again(echo: Echo) -> None:
    echo.writer.call(1)
    thread = echo.writer._thread
    assert thread is not None
    echo.writer.stop()
    assert not thread.is_alive()
    assert echo.writer.call(2) == 2


def test_it_can_be_stopped_in_the_middle_of_a_batch_that_takes_too_long() -> None:
    echo = Echo(timeout=0.2)
    held, first = echo.hold_up(), echo.writer._thread
    echo.writer.stop()
    next_call = threading.Thread(target=echo.writer.call, args=["next"])
    next_call.start()
    assert eventually(lambda: ["next"] in echo.batches)
    echo.may_go_on.set()
    held.join(30)
    next_call.join(30)
    assert first is not None
    first.join(30)
    assert not first.is_alive()
    assert echo.writer.call("last") == "last"
    echo.writer.stop()


def test_a_fork_takes_neither_the_thread_nor_what_is_queued(echo: Echo) -> None:
    held = echo.hold_up()
    [queued] = start_threads(lambda: echo.writer.call("queued"))
    assert eventually(lambda: echo.writer._queue.qsize() == 1)
    if (child := os.fork()) == 0:
        echo.may_go_on.set()
        is_right = echo.writer.call("of the child") == "of the child"
        os._exit(0 if is_right and echo.batches == [["held up"], ["of the child"]] else 1)
    echo.may_go_on.set()
    assert os.waitpid(child, 0)[1] == 0
    held.join()
    queued.join()
    assert echo.batches == [["held up"], ["queued"]]


def test_a_fork_that_python_did_not_see_is_noticed(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    echo.writer.call(1)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert echo.writer.call(2) == 2


def test_without_threads_it_says_so(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(JournalError, match="could not start its thread"):
            echo.writer.call(1)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "uwsgi", type("uwsgi", (), {"opt": {}}))
        with pytest.raises(ConfigurationError, match="enable-threads"):
            echo.writer.call(1)
    assert echo.writer.call(2) == 2
    assert echo.batches == [[2]]


def test_what_an_event_loop_was_refused_for_want_of_a_thread_is_never_performed(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def ask() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(JournalError, match="could not start its thread"):
                await echo.writer.acall("refused")
        assert await echo.writer.acall("next") == "next"

    asyncio.run(ask())
    assert echo.batches == [["next"]]


def test_what_was_cancelled_before_it_began_is_not_kept() -> None:
    class Work:
        """Something that a weak reference can watch."""

    echo, watched = Echo(timeout=0.2), list[weakref.ref[Work]]()

    async def ask_in_vain() -> None:
        work = Work()
        watched.append(weakref.ref(work))
        await echo.writer.acall(work)

    async def ask() -> None:
        held = echo.hold_up()
        with anyio.move_on_after(0.05):
            await ask_in_vain()
        echo.may_go_on.set()
        held.join()
        assert await echo.writer.acall("next") == "next"
        await anyio.sleep(0.5)
        gc.collect()
        assert watched[0]() is None

    asyncio.run(ask())
    echo.writer.stop()


def test_loops_that_begin_and_end_in_several_threads_do_not_disturb_each_other(echo: Echo) -> None:
    """As the async views of a WSGI server do: each request has a loop of its own."""
    meanwhile: list[Callable[[], Any]] = []

    class Loop(asyncio.SelectorEventLoop):
        def is_closed(self) -> bool:
            if meanwhile:
                [thread] = start_threads(meanwhile.pop())
                thread.join()
            return super().is_closed()

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(echo.ask(1))
    meanwhile.append(lambda: asyncio.run(echo.ask(2)))
    assert asyncio.run(echo.ask(3)) == 3
    assert echo.batches == [[1], [2], [3]]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_it_starts_again_after_its_thread_had_died_and_it_was_stopped(echo: Echo) -> None:
    with pytest.raises(JournalError):
        echo.writer.call(SystemExit)
    assert eventually(lambda: echo.writer._thread is not None and not echo.writer._thread.is_alive())
    echo.writer.stop()
    assert echo.writer.call(1) == 1
    assert echo.writer.call(2) == 2


def test_gevent_may_replace_the_queue_after_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `gunicorn -k gevent --preload`: the real queue would let one greenlet stop all others."""
    made: list[queue.SimpleQueue[Any]] = []

    class Green(queue.SimpleQueue):  # type: ignore[type-arg]
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(queue, "SimpleQueue", Green)
    echo = Echo()
    assert echo.writer.call(1) == 1
    assert made == [echo.writer._queue]
    echo.writer.stop()


def test_threads_of_a_forked_child_begin_anew_together(monkeypatch: pytest.MonkeyPatch) -> None:
    echo, answers = Echo(timeout=3), list[int]()
    others: list[threading.Thread] = []

    class Slow(queue.SimpleQueue):  # type: ignore[type-arg]
        def __init__(self) -> None:
            super().__init__()
            others.extend(start_threads(lambda: answers.append(echo.writer.call(2))))
            time.sleep(0.2)

    echo.writer.call(0)
    if (child := os.fork()) == 0:
        monkeypatch.setattr(queue, "SimpleQueue", Slow)
        answers.append(echo.writer.call(1))
        for thread in others:
            thread.join()
        os._exit(0 if sorted(answers) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    echo.writer.stop()
