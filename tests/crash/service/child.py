"""A process of the service that dies where it is told to: forked from one that has imported everything."""

import multiprocessing
import os
import random
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from faregate.rules.dependencies import Dependencies
from faregate.service import environment_payments, reorg_watch, runtime, served_accounts
from faregate.service.commands import serve as serving
from faregate.service.database.attempts import AttemptSchedule
from faregate.service.database.engine import Database
from faregate.service.database.gas_transfers import SqlTransfers
from faregate.service.settings import make_settings
from tests.crash.service import application
from tests.crash.service.application import ApplicationName
from tests.crash.service.points import NETWORK
from tests.service.chain.facilitated import BelievingPayments
from tests.support.watched_backend import Around, watch

LEASE = 2.0
"""Seconds. Short, so that what a dead process held is soon taken; a hanging facilitator takes as long."""
NETWORK_DEATH = 0.15
"""Seconds within which a process dies that is to die during a call."""


@dataclass(frozen=True)
class Order:
    """What a process is to do, and at which points it may die, after passing `skips` of them."""

    role: Literal["serve", "work", "sell"]
    settings: dict[str, Any]
    log: str
    points: frozenset[str] = frozenset()
    skips: int = 0
    naive: bool = False
    application: ApplicationName | None = None
    """What sells."""


class Killer:
    """Kills this process at the first of its points that it reaches."""

    def __init__(self, order: Order, tell: Connection) -> None:
        self._points, self._skips, self._tell = order.points, order.skips, tell
        self._lock = threading.Lock()
        self._here = threading.local()

    def reach(self, point: str) -> None:
        """Die here, if that is the point."""
        if point not in self._points:
            return
        with self._lock:
            self._skips -= 1
            if self._skips < 0:
                self._die(point)

    def reach_commit(self) -> None:
        """Die in the call that is about to commit, if that is the point."""
        name = getattr(self._here, "call", None)
        if name is not None and name not in NETWORK:
            self.reach(f"{name}:in")

    @contextmanager
    def inside(self, name: str) -> Generator[None]:
        """Tell what the commits of the block belong to, and die at a random moment if that is the point."""
        outer, self._here.call = getattr(self._here, "call", None), name
        is_to_die = name in NETWORK and f"{name}:in" in self._points
        timer = threading.Timer(random.uniform(0, NETWORK_DEATH), self.reach, [f"{name}:in"])
        if is_to_die:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self._here.call = outer

    def watch(self, name: str, act: Callable[[], Any]) -> Any:
        """Do something that has points before, in and after it."""
        self.reach(f"{name}:before")
        with self.inside(name):
            answer = act()
        self.reach(f"{name}:after")
        return answer

    def _die(self, point: str) -> None:
        self._tell.send(point)
        os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait()


def run(order: Order, listener: socket.socket, tell: Connection) -> None:
    """Serve, or work, until somebody ends this process: it dies at its point, or is killed."""
    end_with_parent()
    descriptor = os.open(order.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in (1, 2):
        os.dup2(descriptor, number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    killer = Killer(order, tell)
    _change_settings(order)
    _watch_store(killer, order)
    settings = make_settings(order.settings)
    if order.role == "serve":
        inherit: Callable[..., socket.socket] = lambda *_: listener  # noqa: E731
        setattr(serving, "open_listener", inherit)  # noqa: B010 - callers wait while nobody serves
        serving.serve(settings)
    elif order.application is not None:
        application.sell(order.application, order.settings, Path(order.log), listener, killer)
    else:
        serving.work(settings)


def end_with_parent() -> None:
    """End this process when the one that asked for it ends, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _change_settings(order: Order) -> None:
    """Shorten what an operator need not set, and put in the naive backend."""
    shorter: list[tuple[Any, str, dict[str, Any]]] = [
        (
            served_accounts,
            "StoreOptions",
            {"attempt_schedule": AttemptSchedule(LEASE, first_retry=0.3, last_retry=1.0)},
        ),
        (environment_payments, "FacilitatorSettings", {"verify_seconds": 4.0, "settle_seconds": 1.5}),
        (environment_payments, "GasPolicy", {"replace_after_seconds": 2}),
    ]
    for module, name, values in shorter:
        setattr(module, name, partial(getattr(module, name), **values))
    setattr(runtime, "_UPKEEP_SECONDS", 0.5)  # noqa: B010
    setattr(runtime, "_REORG_SECONDS", 1.0)  # noqa: B010
    setattr(reorg_watch, "_LATE_STAMPS", 5_000_000)  # noqa: B010
    setattr(reorg_watch, "_PAUSE", 500_000)  # noqa: B010
    setattr(reorg_watch, "_LONGEST_PAUSE", 1_000_000)  # noqa: B010
    setattr(reorg_watch, "_LEASE", int(LEASE * 1_000_000))  # noqa: B010
    if order.naive:
        setattr(environment_payments, "FacilitatorPayments", BelievingPayments)  # noqa: B010


def _watch_store(killer: Killer, order: Order) -> None:
    around: Around = lambda call: killer.watch(call.name, call.perform)  # noqa: E731
    setattr(served_accounts, "Dependencies", lambda *parts: watch(Dependencies(*parts), around))  # noqa: B010
    for kind, method, name in (
        (served_accounts.ServedAccounts, "take", "take_job"),
        (SqlTransfers, "replace_transfer", "replace_transfer"),
    ):
        setattr(kind, method, _watch(killer, name, getattr(kind, method)))
    setattr(Database, "write", _watch_commit(killer, Database.write))  # noqa: B010
    if not order.settings["database"].startswith("sqlite"):  # there it is `write`
        setattr(Database, "write_statement", _watch_commit(killer, Database.write_statement))  # noqa: B010
    setattr(Database, "change", _watch_change(killer, Database.change))  # noqa: B010


def _watch(killer: Killer, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **named: killer.watch(name, lambda: original(*given, **named))


def _watch_change(killer: Killer, original: Callable[..., Any]) -> Callable[..., Any]:
    """A statement that commits by itself: the point is between its commit and its answer."""

    def change(*given: Any, **named: Any) -> Any:
        answer = original(*given, **named)
        killer.reach_commit()
        return answer

    return change


def _watch_commit(killer: Killer, original: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def write(database: Database) -> Generator[Any]:
        with original(database) as connection:
            yield connection
            killer.reach_commit()

    return write
