"""The processes of the service: each is killed at a point, and a new one takes its place at once."""

import multiprocessing
import random
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Final

from tests.crash.service import child
from tests.crash.service.child import Order

if TYPE_CHECKING:
    from tests.crash.service.environment import Environment

context: Any = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.crash.service.preload"])
PATIENCE = 8.0
"""Seconds in which a process reaches one of its points. Then it is killed wherever it is."""
AT_ONCE = 4
"""The points of one process, beside the rare ones: it dies at the first that it reaches."""
RARE: Final = {"RecordFailed", "ReplaceTransfer"}
"""Few payments come to these steps, so each process may die there."""
one_at_a_time = threading.Lock()
"""A process that is started collects the ends of others, so nobody else may at that moment."""


class Gate:
    """Lets processes live; closed, it lets none live, as while a database is restored."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._living = 0
        self.is_closed = False

    def enter(self) -> None:
        """Wait until processes may live, and count one more."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_closed)
            self._living += 1

    def leave(self) -> None:
        with self._changed:
            self._living -= 1
            self._changed.notify_all()

    @contextmanager
    def closed(self) -> Generator[None]:
        """Wait until every process has ended, and let none begin before the block ends."""
        with self._changed:
            self.is_closed = True
            self._changed.wait_for(lambda: self._living == 0)
        try:
            yield
        finally:
            with self._changed:
                self.is_closed = False
                self._changed.notify_all()


class Plan:
    """How often processes are still to be killed at each point."""

    def __init__(self, points: Sequence[str], times: int, seed: int) -> None:
        self._left = Counter(dict.fromkeys(points, times))
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.deaths: Counter[str] = Counter()
        self.deaths_of: Counter[str] = Counter()
        """At points, of each kind of process."""
        self.elsewhere = 0

    def choose(self) -> frozenset[str]:
        """Choose some points that are not done, not the same each time."""
        with self._lock:
            left = [point for point, times in self._left.items() if times > 0]
            rare = [point for point in left if point.partition(":")[0] in RARE]
            return frozenset([*rare, *self._chance.sample(left, min(AT_ONCE, len(left)))])

    def record(self, point: str | None, kind: str) -> None:
        """Record that a process of this kind died at this point; None: elsewhere."""
        with self._lock:
            if point is None:
                self.elsewhere += 1
            else:
                self.deaths[point] += 1
                self.deaths_of[kind] += 1
                self._left[point] -= 1

    @property
    def left(self) -> int:
        return sum(max(0, times) for times in self._left.values())

    @property
    def last_points(self) -> str:
        """The points that are left, once they are few."""
        left = [point for point, times in self._left.items() if times > 0]
        return f", left: {' '.join(left)}" if len(left) <= 2 * AT_ONCE else ""


def _hear_point(hear: Connection) -> str | None:
    """Return the point at which the process died; None if it was killed elsewhere."""
    with hear:
        try:
            return str(hear.recv())
        except EOFError:
            return None


class Slot(threading.Thread):
    """One place for a process, which is never empty for long."""

    def __init__(self, order: Order, environment: "Environment", plan: Plan, seed: int) -> None:
        super().__init__(daemon=True)
        self._order, self._environment, self._plan = order, environment, plan
        self._chance = random.Random(seed)
        self._heal, self._end = threading.Event(), threading.Event()
        self.failures: list[str] = []
        """Processes that ended by themselves."""

    def heal(self) -> None:
        """Kill no more."""
        self._heal.set()

    def end(self) -> None:
        self._end.set()
        self.join()

    def run(self) -> None:
        while not self._end.is_set():
            points = frozenset[str]() if self._heal.is_set() else self._plan.choose()
            # What is left towards the end is rare, so a process dies at the first of it that it reaches.
            skips = self._chance.choice((0, 0, 0, 1, 3)) if len(points) >= AT_ONCE else 0
            self._environment.gate.enter()
            try:
                self._live(replace(self._order, points=points, skips=skips))
            finally:
                self._environment.gate.leave()

    def _live(self, order: Order) -> None:
        hear, tell = context.Pipe(duplex=False)
        process = context.Process(
            target=child.run, args=(order, self._environment.listener, tell), daemon=True
        )
        with one_at_a_time, tell:
            process.start()
        healed = not order.points
        waited, is_stopped = 0.0, False
        while not wait([process.sentinel], 0.1):
            waited += 0.1
            is_over = not healed and (waited > PATIENCE or self._heal.is_set())
            is_stopped = self._environment.gate.is_closed
            if is_over or is_stopped or self._end.is_set():
                process.kill()
                wait([process.sentinel])
                break
        with one_at_a_time:
            process.join()
        point = _hear_point(hear)
        if process.exitcode != -9 and time.monotonic() < self._environment.database_back_at:
            self._end.wait(0.5)
        elif process.exitcode != -9:
            self.failures.append(f"a process ended by itself: {process.exitcode}")
            self._end.wait(0.5)
        elif not healed and not (is_stopped and point is None):
            self._plan.record(point, order.application or order.role)
