"""A process that died makes no attempt any more: another one goes on at once. With real processes."""

import os
import signal
import time
from collections.abc import Generator
from typing import Any

import pytest

from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.owners import Owner
from faregate.service.database.sql_store import SqlStore
from faregate.service.runtime import Runtime
from faregate.service.settings import Settings
from faregate.service.storage import Storage
from faregate.system import system_clock
from tests.service import sales
from tests.support.preloaded import PreloadedPython
from tests.support.waiting import eventually

pytestmark = pytest.mark.every_value
ATTEMPT = """
import sys, time
from faregate.service.database.engine import Database
from faregate.service.database.owners import Owner
from faregate.system import system_clock
from tests.service.sales import authorize, open_store, submit, succeeded

database = Database(sys.argv[1])
owner = Owner(database, system_clock)
if sys.argv[2] == "locked":
    owner.take_lock()
store = open_store(database, get_owner=lambda: owner.id)
made = authorize(store)
if sys.argv[3] == "submitting":
    recorded = store.record_outcome(made, succeeded(made), begins_attempt=True)
else:
    recorded = store.record_outcome(made, succeeded(made))
    assert store.begin_attempt(recorded)
print(made.id, flush=True)
time.sleep(60)
"""


class Attempting:
    """A process that has the lease of a payment."""

    def __init__(self, url: str, kind: str = "locked", way: str = "submitting") -> None:
        self.process = PreloadedPython(["-c", ATTEMPT, url, kind, way])
        self.transaction_id = self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.close()


@pytest.fixture
def started(url: str) -> Generator[list[Attempting]]:
    found: list[Attempting] = []
    yield found
    for each in found:
        each.kill()


@pytest.fixture
def store(database: Database) -> SqlStore:
    return sales.open_store(database)


@pytest.fixture
def owner(database: Database) -> Generator[Owner]:
    owner = Owner(database, system_clock)
    owner.take_lock()
    yield owner
    owner.release_lock()


def take(store: SqlStore, owner: Owner) -> list[str]:
    """What a worker takes that looks for dead processes now."""
    owner.end_leases_of_dead()
    return [transaction.id for transaction, _ in store.take_jobs(5)]


@pytest.mark.parametrize("way", ["submitting", "later"])
def test_the_attempt_of_a_process_that_died_is_repeated_at_once(
    url: str, store: SqlStore, owner: Owner, started: list[Attempting], way: str
) -> None:
    started.append(Attempting(url, way=way))
    assert take(store, owner) == []
    started[0].kill()
    # A server notices a moment later that a connection has ended.
    assert eventually(owner.end_leases_of_dead)
    [(transaction, attempt)] = store.take_jobs(5)
    assert transaction.id == started[0].transaction_id
    assert (attempt.number, attempt.sent_before) == (2, True), "it looks at the chain first"


def test_a_process_that_is_stopped_keeps_its_attempt(
    url: str, store: SqlStore, owner: Owner, started: list[Attempting]
) -> None:
    started.append(Attempting(url))
    os.kill(started[0].process.pid, signal.SIGSTOP)
    assert not owner.end_leases_of_dead()
    assert store.take_jobs(5) == []


def test_where_no_lock_is_the_lease_decides(
    url: str, store: SqlStore, owner: Owner, started: list[Attempting]
) -> None:
    started.append(Attempting(url, "without"))
    started[0].kill()
    assert take(store, owner) == []


def test_a_process_does_not_end_its_own_attempt(database: Database, owner: Owner) -> None:
    store = sales.open_store(database, get_owner=lambda: owner.id)
    assert store.begin_attempt(sales.submit(store)) is not None
    assert take(store, owner) == []


def test_a_worker_goes_on_soon(
    url: str, database: Database, started: list[Attempting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease would last for half a minute."""
    settled: list[Any] = []
    started.append(Attempting(url))
    storage = Storage(database, Stamps(database, system_clock))
    runtime = Runtime(Settings(), storage, {})
    monkeypatch.setattr(
        "faregate.service.settlement_workers.run_attempt", lambda made, *_: settled.append(made)
    )
    runtime.begin()
    try:
        started[0].kill()
        killed = time.monotonic()
        assert eventually(lambda: bool(settled))
        assert settled[0].id == started[0].transaction_id
        assert time.monotonic() - killed < 10
    finally:
        runtime.end()
