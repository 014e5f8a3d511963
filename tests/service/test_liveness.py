"""Loops that stand still: a worker or a repeated task that finishes no round makes the process unhealthy."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from faregate.service.liveness import LATE_SECONDS, Liveness
from faregate.service.settlement_workers import CompletionWaiters, Job, Repeater, Worker
from tests.support.clock import Clock
from tests.support.waiting import eventually


class Gate:
    """What a loop does: it waits while the gate is closed, and may fail after it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.is_open = threading.Event()
        self.rounds = 0
        self._fails = fails

    def take(self) -> Job | None:
        assert self.is_open.wait(20)
        self.rounds += 1
        if self._fails:
            raise ConnectionError("the database is away")
        return None


def build_worker(gate: Gate, stop: threading.Event, liveness: Liveness) -> Worker:
    return Worker(
        gate,
        stop,
        waiters=CompletionWaiters(),
        observe=lambda _: None,
        observe_round=liveness.watch("a loop"),
        idle_seconds=0.01,
    )


def build_repeater(gate: Gate, stop: threading.Event, liveness: Liveness) -> Repeater:
    return Repeater("a task", gate.take, stop, 0.01, observe_round=liveness.watch("a loop"))


Build = Callable[[Gate, threading.Event, Liveness], Worker | Repeater]


@pytest.fixture(params=[build_worker, build_repeater])
def build(request: pytest.FixtureRequest) -> Build:
    made: Build = request.param
    return made


@contextmanager
def running(build: Build, gate: Gate, liveness: Liveness) -> Generator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=build(gate, stop, liveness).run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        gate.is_open.set()
        thread.join()


@pytest.mark.parametrize("fails", [False, True])
def test_a_round_that_does_not_end_is_late_until_it_ends(build: Build, fails: bool) -> None:
    """A round that fails has ended: while the database is away, a restart would not help."""
    clock = Clock()
    liveness, gate = Liveness(clock), Gate(fails=fails)
    with running(build, gate, liveness):
        clock.now = LATE_SECONDS
        assert liveness.find_late() == ""
        clock.now += 1
        assert liveness.find_late() == "a loop has finished no round for 301 seconds"
        gate.is_open.set()
        assert eventually(lambda: liveness.find_late() == "")
        assert liveness.measure() == {"a loop": 0}


def test_each_loop_that_is_late_is_named() -> None:
    clock = Clock()
    liveness = Liveness(clock)
    finish = [liveness.watch(f"worker {number}") for number in (1, 2, 3)]
    clock.now = 400
    finish[1]()
    assert liveness.find_late() == (
        "worker 1 has finished no round for 400 seconds; worker 3 has finished no round for 400 seconds"
    )


def test_a_process_without_loops_is_healthy() -> None:
    assert Liveness(Clock()).find_late() == ""
