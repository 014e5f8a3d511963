"""The Django journal on database servers: sessions that end, writes that are undone, rows that are locked.

What every journal must do is tested on these servers as on all others (`tests.journals.stores`).
"""

import math
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import psycopg
import pymysql
import pytest

from faregate.core.claim_types import Claim, InProgress
from faregate.errors import JournalError
from faregate.journals.durations import JournalPolicy
from faregate.journals.persistent import PersistentJournal
from faregate.journals.store import Record
from faregate.journals.urls import JournalContext
from tests import django_site
from tests.core.flow_script import ACR, OTHER_TXN, RECEIPT, TXN
from tests.django_site import databases
from tests.journals.postgres_schema import asked
from tests.journals.records import CLAIMED
from tests.journals.rows import GOOD, HERE, LEASE, WORK_SECONDS, fresh, started
from tests.journals.stores import KEY, STEADY, Clock
from tests.servers.shared import shared

django_site.ready()

from django.db import OperationalError, connections  # noqa: E402

from faregate.django.journal import make_journal  # noqa: E402
from faregate.django.journal.store import DjangoStore  # noqa: E402

TABLE = "faregate_journal_journalrow"
SERVERS = ("postgres", "mariadb")
UNDO = {
    "postgres": "DO $$ BEGIN RAISE EXCEPTION SQLSTATE '40P01'; END $$",
    "mariadb": "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213",
}
"""Fails as a statement does that was chosen to end a deadlock."""


@pytest.fixture(params=SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    return databases.add(str(request.param))


@pytest.fixture
def journal(kind: str, clock: Clock, tmp_path: Path) -> Generator[PersistentJournal]:
    made = make(kind, clock, tmp_path)
    yield made
    made.disconnect()


def make(using: str, clock: Clock, place: Path) -> PersistentJournal:
    return PersistentJournal(DjangoStore(str(place), using), keys=[KEY], policy=STEADY, clock=clock)


def connect(kind: str) -> Any:
    """Somebody else's connection, in a transaction of its own."""
    said = connections.databases[kind]
    if kind == "postgres":
        return psycopg.connect(shared("postgres"))
    where = {"host": said["HOST"], "port": int(said["PORT"])}
    return pymysql.connect(user=said["USER"], database=said["NAME"], **where)


# Locks


def test_a_sweep_skips_a_locked_row(
    journal: PersistentJournal, clock: Clock, kind: str, tmp_path: Path
) -> None:
    started(journal)
    clock.now += 1
    started(journal, "another", OTHER_TXN)
    clock.now += LEASE
    with closing(connect(kind)) as other, closing(other.cursor()) as cursor:
        locked = f"SELECT id FROM {TABLE} WHERE transaction_id = %s AND namespace = %s FOR UPDATE"
        cursor.execute(locked, [TXN, str(tmp_path)])
        entry = journal.lease_next()
        assert entry is not None
        assert entry.transaction_id == OTHER_TXN
        assert journal.lease_next() is None


def test_the_clocks_of_the_machines_need_not_agree(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose clock was ten seconds ahead took over what others were working on."""

    def another_machine() -> PersistentJournal:
        return make_journal(
            JournalContext(str(tmp_path), "", JournalPolicy(renew_every=math.inf)), using=kind
        )

    started(another_machine())
    defaults = PersistentJournal.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "clock", lambda: time.time() + 3600)
    ahead = another_machine()
    assert ahead.claim("proof", HERE) == InProgress()
    assert ahead.lease_next() is None
    ahead.disconnect()


Use = Callable[[PersistentJournal], object]
USES: dict[str, Use] = {
    "claim": lambda it: it.claim("new", HERE),
    "claim again": lambda it: it.claim("claimed", HERE),
    "start": lambda it: it.record_transaction(fresh(_of(it, "claimed")), TXN, ACR, WORK_SECONDS),
    "decide": lambda it: it.record_outcome(started(it), GOOD),
    "release": lambda it: it.record_settlement(_decided(it), "cGFpZA==", RECEIPT, True),
    "drop": lambda it: it.abandon_claim(fresh(_of(it, "claimed"))),
    "due": lambda it: it.lease_next(),
    "renew": lambda it: _renew(it),
    "purge": lambda it: it._store.purge(1e12, 100),
    "measure": lambda it: it._store.measure(),
}


def _of(journal: PersistentJournal, proof: str) -> Claim:
    return journal.claim(f"{proof} of {id(journal)}", HERE)


def _renew(journal: PersistentJournal) -> None:
    journal._store.renew("dead", 1.0, 1.0)
    journal._store.renew("alive", 1e10, 1e9)  # deletes the dead one


def _decided(journal: PersistentJournal) -> Any:
    lease = started(journal)
    assert journal.record_outcome(lease, GOOD)
    return lease


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["default", *SERVERS])
def test_a_process_that_stops_between_two_statements_holds_no_lock(
    kind: str, use: str, clock: Clock, tmp_path: Path
) -> None:
    """So each of them is a transaction by itself."""
    using = kind if kind == "default" else databases.add(kind)
    journal = make(using, clock, tmp_path)
    journal.claim("claimed", HERE)
    started(journal, "owed", OTHER_TXN)
    clock.now += LEASE
    inside: list[bool] = []

    def watch(execute: Any, query: str, values: Any, many: bool, context: Any) -> Any:
        inside.append(context["connection"].in_atomic_block)
        return execute(query, values, many, context)

    with connections[using].execute_wrapper(watch):
        USES[use](journal)
    journal.disconnect()
    assert inside
    assert not any(inside)


# Writes that the database undid


@pytest.mark.parametrize("use", USES)
def test_a_call_that_was_rolled_back_is_repeated(
    journal: PersistentJournal, kind: str, use: str, clock: Clock
) -> None:
    """Each statement is the one that ends a deadlock, once."""
    journal.claim("claimed", HERE)
    started(journal, "owed", OTHER_TXN)
    clock.now += LEASE
    undone: set[str] = set()

    def undo(execute: Any, query: str, values: Any, many: bool, context: Any) -> Any:
        if query not in undone:
            undone.add(query)
            execute(UNDO[kind], None, False, context)
        return execute(query, values, many, context)

    with connections[kind].execute_wrapper(undo):
        USES[use](journal)
    assert undone


def test_a_database_that_rolls_back_every_try_is_an_error(journal: PersistentJournal, kind: str) -> None:
    def undo(execute: Any, query: str, values: Any, many: bool, context: Any) -> Any:
        return execute(UNDO[kind], None, False, context)

    with (
        connections[kind].execute_wrapper(undo),
        pytest.raises(JournalError, match="could not be read or written"),
    ):
        journal.claim("proof", HERE)


# What is on the disk


def test_durable_writes_are_synced_whatever_the_projects_settings(clock: Clock, tmp_path: Path) -> None:
    journal = make(databases.add("postgres"), clock, tmp_path)
    lease = started(journal)
    [[before]] = asked(shared("postgres"), "SELECT pg_current_wal_insert_lsn()")
    assert journal.record_outcome(lease, GOOD)
    flushed = asked(shared("postgres"), "SELECT pg_current_wal_flush_lsn() > %s::text::pg_lsn", before)
    assert flushed == [(True,)]
    journal.disconnect()


# Answers that were lost


def test_a_write_that_was_done_is_not_repeated(journal: PersistentJournal) -> None:
    store, row = journal._store, cast(Record, {"key": b"\1" * 32, **CLAIMED})
    assert store.insert(row, [row["key"]], 0.0)
    assert store.insert(row, [row["key"]], 0.0)
    assert not store.insert(cast(Record, {**row, "stamp": 7}), [row["key"]], 0.0)
    assert store.replace(row["key"], 1, {"stamp": 2}, True)
    assert store.replace(row["key"], 1, {"stamp": 2}, True)
    assert not store.replace(row["key"], 1, {"stamp": 3}, True)


@pytest.mark.parametrize("statement", ["INSERT", "UPDATE", "SELECT"])
@pytest.mark.parametrize("use", ["claim", "start", "decide", "release", "due"])
def test_a_session_that_was_lost_is_replaced(
    journal: PersistentJournal, kind: str, use: str, statement: str, clock: Clock
) -> None:
    """The answer to that statement is lost. What it wrote stands, and is not done twice."""
    journal.claim("claimed", HERE)
    started(journal, "owed", OTHER_TXN)
    clock.now += LEASE
    lost: list[str] = []

    def lose(execute: Any, query: str, values: Any, many: bool, context: Any) -> Any:
        answer = execute(query, values, many, context)
        if not lost and query.startswith(statement):
            lost.append(query)
            end_session(kind, context["connection"])
            return execute("SELECT 1", None, False, context)
        return answer

    with connections[kind].execute_wrapper(lose):
        answer = USES[use](journal)
    assert answer
    left = iter(journal.lease_next, None)
    assert len(list(left)) == (0 if use == "due" else 1)
    assert bool(lost) == ((use, statement) in HAPPENS)


HAPPENS = {
    *((use, "SELECT") for use in ("claim", "start", "decide", "release", "due")),
    *((use, "UPDATE") for use in ("start", "decide", "release", "due")),
    *((use, "INSERT") for use in ("claim", "start", "decide", "release")),
}


def end_session(kind: str, connection: Any) -> None:
    """The server ends it, and it is gone when this returns."""
    theirs = connection.connection
    if kind == "postgres":
        assert asked(shared("postgres"), "SELECT pg_terminate_backend(%s, 5000)", theirs.info.backend_pid)
        return
    with closing(connect(kind)) as other, closing(other.cursor()) as cursor:
        cursor.execute(f"KILL CONNECTION {theirs.thread_id()}")
        gone = f"SELECT 1 FROM information_schema.processlist WHERE id = {theirs.thread_id()}"
        end = time.monotonic() + 20
        while cursor.execute(gone):
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_server_that_is_gone_is_an_error_and_then_works_again(
    journal: PersistentJournal, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = started(journal)
    journal.disconnect()
    with monkeypatch.context() as gone:
        gone.setitem(connections[kind].settings_dict, "PORT", "1")
        with pytest.raises(JournalError, match="could not be read or written") as told:
            journal.record_outcome(lease, GOOD)
    assert isinstance(told.value.__cause__, OperationalError)
    assert journal.record_outcome(lease, GOOD)
