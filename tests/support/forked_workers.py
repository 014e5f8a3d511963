"""Run tests in processes that are forked from the one that has collected them: `--processes 5`.

The workers of pytest-xdist start anew. Each imports every framework and collects all tests, which takes 7 s
of CPU (12 s in a new clone), and each test costs 2 ms to distribute and report. A fork has all of that.

As with `--dist loadgroup`, a process takes one group of tests after the other, and runs all tests of a group.
Warnings that fail nothing are not shown: `filterwarnings` makes errors of them.
"""

import atexit
import mmap
import os
import struct
import sys
import traceback
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Final, NoReturn, cast

import pytest
from _pytest.capture import CaptureManager
from _pytest.runner import pytest_sessionfinish as tear_down

WORKER: Final = "PYTEST_XDIST_WORKER"
"""The variable by which tests, and whatever they start, tell workers apart: pytest-xdist's name of it."""
RUN: Final = "PYTEST_XDIST_TESTRUNUID"
"""That by which they tell runs apart."""
_NUMBER = struct.Struct("=i")
_NONE: Final = -1


def name_run() -> None:
    """Tell the processes of this run, and what they start, apart from those of others."""
    os.environ[RUN] = uuid.uuid4().hex


@dataclass(frozen=True)
class Summaries:
    """What a worker does first, what it tells at its end, and who is told."""

    prepare: Callable[[], None]
    summarize: Callable[[], Mapping[str, Any]]
    add: Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class _Done:
    """A test has run."""

    index: int
    reports: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class _Taken:
    """These tests, by their indices, will run in the process that says so."""

    indices: Sequence[int]


@dataclass(frozen=True)
class _Ended:
    """The process has nothing left to do, or cannot go on because of an error in pytest itself."""

    summary: Mapping[str, Any]
    error: str = ""


class _Shared:
    """What the processes know of each other: whether to stop, and which test each runs."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, _NUMBER.size * (1 + count))
        self._put(0, 0)

    @property
    def is_stopped(self) -> bool:
        return self._get(0) != 0

    def stop(self) -> None:
        self._put(0, 1)

    def set_running(self, worker: int, index: int) -> None:
        self._put(worker + 1, index)

    def get_running(self, worker: int) -> int:
        return self._get(worker + 1)

    def _get(self, place: int) -> int:
        return cast(int, _NUMBER.unpack_from(self._memory, place * _NUMBER.size)[0])

    def _put(self, place: int, number: int) -> None:
        _NUMBER.pack_into(self._memory, place * _NUMBER.size, number)


class _Queue:
    """Numbers of groups in a pipe, from which each process reads the next one."""

    def __init__(self, count: int) -> None:
        self._reading, writing = os.pipe()
        # All at once: a pipe holds 16,000 of them.
        os.write(writing, b"".join(_NUMBER.pack(number) for number in range(count)))
        os.close(writing)

    def take(self) -> int | None:
        number = os.read(self._reading, _NUMBER.size)
        return cast(int, _NUMBER.unpack(number)[0]) if number else None

    def close(self) -> None:
        os.close(self._reading)


@dataclass
class _Worker:
    """A process as its parent sees it."""

    number: int
    pid: int
    connection: Connection
    left: list[int]
    """The tests that it has taken and not run yet."""
    has_ended: bool = False


class _Reports:
    """Keeps the reports of one test until they are sent."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        made = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(made)

    def take(self) -> Sequence[dict[str, Any]]:
        taken, self._reports = self._reports, []
        return taken


@dataclass
class ForkedWorkers:
    """Runs the tests of a session, instead of pytest's own loop, in `count` processes."""

    session: pytest.Session
    count: int
    groups: Sequence[Sequence[int]]
    """Indices of tests: each group runs in one process, and those named first begin first."""
    summaries: Summaries
    _workers: dict[Connection, _Worker] = field(default_factory=dict[Connection, _Worker])

    def run(self) -> None:
        self._shared = _Shared(self.count)
        self._queue = _Queue(len(self.groups))
        self._missing = len(self.session.items)
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is not None:
            terminal.showfspath = False  # several files run at once
        with _capture_released(self._config):
            for number in range(self.count):
                self._fork(number, [])
            try:
                self._follow()
            except BaseException:
                self._stop()
                raise
            finally:
                self._queue.close()
        if self._missing and not self._shared.is_stopped:
            raise RuntimeError(f"{self._missing} tests were not run")
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        if self.session.shouldstop:
            raise self.session.Interrupted(self.session.shouldstop)

    @property
    def _config(self) -> pytest.Config:
        return self.session.config

    def _fork(self, number: int, left: list[int]) -> None:
        reading, writing = Pipe(duplex=False)
        self._shared.set_running(number, _NONE)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            reading.close()
            for other in self._workers:
                other.close()
            self._work(number, left, writing)
        writing.close()
        self._workers[reading] = _Worker(number, pid, reading, left)

    def _follow(self) -> None:
        while self._workers:
            for ready in wait(list(self._workers)):
                worker = self._workers[cast(Connection, ready)]
                try:
                    message = worker.connection.recv()
                except EOFError:
                    self._reap(worker)
                else:
                    self._take_in(worker, message)

    def _take_in(self, worker: _Worker, message: object) -> None:
        match message:
            case _Taken():
                worker.left.extend(message.indices)
            case _Done():
                self._complete(worker, message.index)
                for made in message.reports:
                    self._report(
                        self._config.hook.pytest_report_from_serializable(config=self._config, data=made)
                    )
                item = self.session.items[message.index]
                self._config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            case _Ended(error=""):
                worker.has_ended = True
                self.summaries.add(message.summary)
            case _:
                assert isinstance(message, _Ended)
                worker.has_ended = True
                raise RuntimeError(message.error)

    def _complete(self, worker: _Worker, index: int) -> None:
        worker.left.remove(index)
        self._missing -= 1

    def _report(self, report: pytest.TestReport) -> None:
        self._config.hook.pytest_runtest_logreport(report=report)
        if self.session.shouldfail or self.session.shouldstop:
            self._shared.stop()

    def _reap(self, worker: _Worker) -> None:
        """Wait for its end. A test that has ended it has failed; another process goes on with the others."""
        del self._workers[worker.connection]
        worker.connection.close()
        _, status = os.waitpid(worker.pid, 0)
        if worker.has_ended:
            return
        running = self._shared.get_running(worker.number)
        why = f"the process of the tests ended with {os.waitstatus_to_exitcode(status)}"
        if running == _NONE:
            raise RuntimeError(f"between two tests, {why}")
        self._complete(worker, running)
        item = self.session.items[running]
        self._report(
            pytest.TestReport(item.nodeid, item.location, {}, "failed", f"During this test, {why}.", "call")
        )
        if not self._shared.is_stopped:
            self._fork(worker.number, worker.left)

    def _stop(self) -> None:
        """Let each process end the test that it runs, with what that has started, and wait for it."""
        self._shared.stop()
        for connection, worker in self._workers.items():
            with connection:
                while _is_open(connection):
                    pass
            os.waitpid(worker.pid, 0)
        self._workers.clear()

    def _work(self, number: int, left: Sequence[int], connection: Connection) -> NoReturn:
        """In the fork: run groups until none is left. It never returns to what its parent was about to do."""
        status = 1
        try:
            os.environ[WORKER] = f"fork{number}"
            manager = self._config.pluginmanager
            manager.unregister(name="terminalreporter")
            reports = _Reports(self._config)
            manager.register(reports)
            _capture(self._config).start_global_capturing()
            _capture(self._config).suspend_global_capture()
            try:
                self.summaries.prepare()
                self._run_tests(number, self._take_indices(left, connection), reports, connection)
            finally:
                tear_down(self.session)
            connection.send(_Ended(self.summaries.summarize()))
            status = 0
        except BrokenPipeError:
            pass  # our parent is gone
        except BaseException:
            connection.send(_Ended({}, traceback.format_exc()))
        finally:
            atexit._run_exitfuncs()
            os._exit(status)

    def _take_indices(self, left: Sequence[int], connection: Connection) -> Iterator[int]:
        yield from tuple(left)
        while (number := self._queue.take()) is not None:
            connection.send(_Taken(self.groups[number]))
            yield from self.groups[number]

    def _run_tests(
        self, number: int, indices: Iterator[int], reports: _Reports, connection: Connection
    ) -> None:
        current = next(indices, None)
        while current is not None:
            following = next(indices, None)  # its fixtures are kept
            self._shared.set_running(number, current)
            self._config.hook.pytest_runtest_protocol(
                item=self.session.items[current],
                nextitem=None if following is None else self.session.items[following],
            )
            connection.send(_Done(current, reports.take()))
            self._shared.set_running(number, _NONE)
            if self._shared.is_stopped or self.session.shouldfail or self.session.shouldstop:
                return
            current = following


def _is_open(connection: Connection) -> bool:
    try:
        connection.recv_bytes()
    except EOFError:
        return False
    return True


def _capture(config: pytest.Config) -> CaptureManager:
    return cast(CaptureManager, config.pluginmanager.getplugin("capturemanager"))


@contextmanager
def _capture_released(config: pytest.Config) -> Generator[None]:
    """Each fork captures into files of its own: of one that they share, each would cut what others wrote.

    The file of the process that collected stays open: defaults of functions that were imported name it.
    """
    manager: Any = _capture(config)
    manager.suspend_global_capture(in_=True)
    collected, manager._global_capturing = manager._global_capturing, None
    try:
        yield
    finally:
        collected.readouterr()  # what forks wrote there
        manager._global_capturing = collected
