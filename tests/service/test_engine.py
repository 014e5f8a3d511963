"""Connections: what may be written, and what errors may say."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BigInteger, LargeBinary, Text, bindparam, cast, column, insert, select, text

from faregate.errors import ConfigurationError
from faregate.journals.sqlite import database as journal_database
from faregate.journals.sqlite.batch import Change
from faregate.journals.sqlite.database import SqliteDatabase
from faregate.service.database import statements
from faregate.service.database.engine import Database, DatabaseError, LostConnection
from faregate.service.database.schema import accounts, attempts
from faregate.service.database.statements import Statement
from faregate.service.database.types import Amount
from faregate.service.database.upgrade import upgrade

pytestmark = pytest.mark.every_value

SECRET = "hunter2-secret"


@pytest.mark.parametrize(
    "url", ["nonsense hunter2", "mysql://u:hunter2@h/d", "sqlite://", "sqlite:///:memory:"]
)
def test_another_kind_of_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="postgresql://user:password@host") as caught:
        Database(url)
    assert "hunter2" not in str(caught.value)


def test_an_unreachable_server_is_named_without_its_password() -> None:
    database = Database(f"postgresql://somebody:{SECRET}@127.0.0.1:1/nowhere")
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1") as caught, database.read():
        pass
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_refused_row_is_not_shown(database: Database) -> None:
    row = {"org": SECRET, "environment": "else", "name": "n", "pay_to": "0x", "created_at": 0}
    with pytest.raises(DatabaseError, match="refused") as caught, database.write() as connection:
        connection.execute(insert(accounts), row)
    assert SECRET not in str(caught.value)


def test_a_failed_transaction_writes_nothing(database: Database) -> None:
    row = {"org": "org_1", "environment": "test", "name": "n", "pay_to": "0x", "created_at": 0}

    def fail() -> None:
        with database.write() as connection:
            connection.execute(insert(accounts), row)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.read() as connection:
        assert connection.execute(accounts.select()).all() == []


@pytest.mark.parametrize("kind", ["sqlite"])
def test_sqlite_commits_to_the_disk(database: Database) -> None:
    with database.write() as connection:
        found = [
            connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous")
        ]
    assert found == ["wal", 2]


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_write_to_sqlite_is_its_statement_or_transaction_and_nothing_else(database: Database) -> None:
    """Each statement more costs a sale four times: one for each of its writes."""
    given = {"word": "w", "count": 1, "value": 1, "hash": b"h"}
    executed: list[str] = []
    with database.write() as connection:
        driver: Any = connection.connection.driver_connection
    driver.set_trace_callback(executed.append)
    database.change(_ECHO, given)
    with database.write() as connection:
        connection.execute(text("SELECT 1"))
    driver.set_trace_callback(None)
    words = [statement.split()[0] for statement in executed]
    assert words == ["SELECT", "BEGIN", "SELECT", "COMMIT"]


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_journal_in_the_same_file_waits_for_its_turn(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would try again and again else, which costs time where payers are many."""
    assert database.file is not None
    journal = SqliteDatabase(database.file, 10)
    tried: list[Any] = []
    retry = journal_database.retry_while_busy

    def count(call: Callable[[], Any], timeout: float) -> Any:
        tried.append(call)
        return retry(call, timeout)

    monkeypatch.setattr(journal_database, "retry_while_busy", count)
    journal.write(lambda connection: connection.execute("SELECT 1").fetchall())
    with ThreadPoolExecutor(1) as pool:
        with database.write() as connection:
            connection.execute(text("SELECT 1"))
            tried.clear()
            writing = pool.submit(journal.write, lambda given: given.execute("SELECT 1").fetchall())
            time.sleep(0.1)
            assert not tried
        assert writing.result() == [(1,)]
    journal.disconnect()


_ADD = Statement(
    insert(accounts)
    .from_select(
        ["org", "environment", "name", "pay_to", "created_at"],
        select(
            bindparam("org", type_=Text()),
            bindparam("environment", type_=Text()),
            *(cast(value, Text()) for value in ("n", "0x")),
            cast(0, BigInteger()),
        ),
    )
    .returning(accounts.c.org)
)
_WORD = Statement(select(bindparam("word", type_=Text()).label("word")))


_ATTEMPT = Statement(
    insert(attempts).from_select(
        ["account", "transaction", "number", "started_at"],
        select(cast(7, BigInteger()), bindparam("id", type_=Text()), *([cast(1, BigInteger())] * 2)),
    )
)


@contextmanager
def writing(journal: SqliteDatabase, waiting: int) -> Generator[ThreadPoolExecutor]:
    """Write to the journal until so many others wait for its writer."""
    began, may_end = threading.Event(), threading.Event()

    def write(_: Any) -> None:
        began.set()
        assert may_end.wait(30)

    with ThreadPoolExecutor(waiting + 1) as pool:
        first = pool.submit(journal.writer.call, Change(write, durable=False))
        assert began.wait(30)
        yield pool
        end = time.monotonic() + 30
        while len(journal.writer._turn.waiting) < waiting:
            assert time.monotonic() < end
        may_end.set()
        first.result()


@pytest.mark.parametrize("kind", ["sqlite"])
def test_changes_that_wait_are_committed_with_those_of_the_journal(database: Database) -> None:
    """A refused one is an error for its own caller only."""
    assert database.file is not None
    journal = SqliteDatabase(database.file, 10)
    database.write_with(journal)
    executed: list[str] = []
    journal.write(lambda connection: connection.set_trace_callback(executed.append))
    executed.clear()
    given = [{"org": f"org_{number}", "environment": "test"} for number in range(4)]
    refused: dict[Statement, dict[str, Any]] = {
        _ADD: {"org": "org_8", "environment": SECRET},
        _ATTEMPT: {"id": "txn_nowhere"},
    }
    with writing(journal, 8) as pool:
        added = [pool.submit(database.change, _ADD, values) for values in given]
        written = pool.submit(journal.write, lambda one: one.execute("SELECT 1").fetchall())
        followed = pool.submit(database.change, _ADD, {**given[0], "org": "org_9", "word": "paid"}, _WORD)
        failed = [pool.submit(database.change, *one) for one in refused.items()]
    assert written.result() == [(1,)]
    assert [one.result() for one in added] == [[{"org": one["org"]}] for one in given]
    assert followed.result() == [{"org": "org_9", "word": "paid"}]
    for one in failed:
        with pytest.raises(DatabaseError, match=r"CHECK|FOREIGN KEY") as caught:
            one.result()
        assert SECRET not in str(caught.value)
    assert executed.count("COMMIT") == 2
    with database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM accounts")).scalar_one() == 5
    journal.disconnect()


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("then", [None, _WORD], ids=["alone", "followed"])
def test_a_change_that_must_be_durable_is_synced_in_a_batch(
    database: Database, durable: bool, then: Statement | None
) -> None:
    assert database.file is not None
    journal = SqliteDatabase(database.file, 10)
    database.write_with(journal)
    executed: list[str] = []
    journal.write(lambda connection: connection.set_trace_callback(executed.append), durable=False)
    with writing(journal, 1) as pool:
        values = {"org": "org_1", "environment": "test", "word": "paid"}
        change = pool.submit(database.change, _ADD, values, then, durable=durable)
    assert change.result()
    assert ("PRAGMA synchronous = FULL" in executed) is durable
    journal.disconnect()


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_change_in_a_batch_that_cannot_be_written_is_an_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert database.file is not None
    journal = SqliteDatabase(database.file, 10)
    database.write_with(journal)

    def fail(*_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with writing(journal, 1) as pool:
        change = pool.submit(database.change, _ADD, {"org": "org_1", "environment": "test"})
        monkeypatch.setattr(journal_database, "run_one", fail)
    with pytest.raises(DatabaseError, match="disk I/O error"):
        change.result()
    journal.disconnect()


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_lone_change_and_a_lone_read_use_the_connection_of_the_journal(database: Database) -> None:
    """Each connection has a cache of its own, which the commits of others empty."""
    assert database.file is not None
    journal = SqliteDatabase(database.file, 10)
    database.write_with(journal)
    executed: list[str] = []
    journal.write(lambda connection: connection.set_trace_callback(executed.append), durable=False)
    executed.clear()
    database.change(_ADD, {"org": "org_1", "environment": "test", "word": "paid"}, _WORD)
    assert database.query(_WORD, {"word": "paid"}) == [{"word": "paid"}]
    kinds = [statement.split()[0] for statement in executed]
    assert kinds == ["PRAGMA", "BEGIN", "SAVEPOINT", "INSERT", "SELECT", "RELEASE", "COMMIT", "SELECT"]
    assert executed[0] == "PRAGMA synchronous = FULL"
    with pytest.raises(DatabaseError, match="CHECK"):
        database.change(_ADD, {"org": "org_2", "environment": SECRET})
    journal.disconnect()


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("is_shared", [True, False], ids=["with a journal", "alone"])
def test_a_read_waits_for_no_writer(database: Database, is_shared: bool) -> None:
    assert database.file is not None
    journal = SqliteDatabase(database.file, 10)
    if is_shared:
        database.write_with(journal)
    with writing(journal, 0):
        assert database.query(_WORD, {"word": "paid"}) == [{"word": "paid"}]
    journal.disconnect()


def test_a_writer_waits_for_another_only_so_long(url: str, database: Database) -> None:
    other = Database(url, timeout=0.2)
    with database.write() as connection:
        connection.execute(text("DELETE FROM alembic_version"))
        with pytest.raises(DatabaseError, match=r"for too long|lock timeout"), other.write() as waiting:
            waiting.execute(text("DELETE FROM alembic_version"))
    other.close()


_ECHO = Statement(
    select(
        bindparam("word", type_=Text()).label("word"),
        bindparam("count", type_=BigInteger()).label("count"),
        cast(bindparam("value", type_=Amount()), Amount()).label("value"),
        cast(bindparam("hash", type_=LargeBinary()), LargeBinary()).label("hash"),
    )
)


_END_OTHERS = text(
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid != pg_backend_pid() AND backend_type = 'client backend'"
)


def test_values_come_back_from_statements_of_sales_as_they_were_given(database: Database) -> None:
    given = {"word": "€ 'quoted' \\x", "count": -(2**63), "value": 10**30 - 1, "hash": bytes(range(256))}
    assert database.query(_ECHO, given) == [given]
    nothing = dict.fromkeys(given)
    assert database.query(_ECHO, nothing) == [nothing]


def test_text_is_never_cut_short(database: Database) -> None:
    """PostgreSQL has no text with a zero in it, and libpq takes a zero for the end of text."""
    given = {"word": "paid\0", "count": 1, "value": 1, "hash": b"\0"}
    if database.is_sqlite:
        assert database.query(_ECHO, given) == [given]
    else:
        with pytest.raises(DatabaseError, match="0x00"):
            database.query(_ECHO, given)
        given = {**given, "word": "paid"}
        assert database.query(_ECHO, given) == [given], "the connection is as good as before"


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_connection_that_the_server_ended_is_replaced(url: str, database: Database) -> None:
    given = {"word": "w", "count": 1, "value": 1, "hash": b"h"}
    other = Database(url, pool_size=1)
    assert other.query(_ECHO, given) == [given]
    for ask, is_repeated in ((other.query, True), (other.change, False)):
        with database.read() as connection:
            connection.execute(_END_OTHERS)
        if is_repeated:
            assert ask(_ECHO, given) == [given]
        else:  # what it wrote may be committed
            with pytest.raises(LostConnection):
                ask(_ECHO, given)
        assert ask(_ECHO, given) == [given]
    other.close()


_PREPARED = Statement(
    select(column("name", Text), column("statement", Text)).select_from(text("pg_prepared_statements"))
)


def list_prepared(database: Database) -> dict[str, str]:
    """The statements that are prepared in the session that the database's own use, by their names."""
    return {row["name"]: row["statement"] for row in database.query(_PREPARED, {})}


def read_often(database: Database) -> None:
    """More often than psycopg waits before it prepares a statement by itself."""
    for number in range(10):
        given = {"word": "w", "count": number, "value": number, "hash": b"h"}
        assert database.query(_ECHO, given) == [given]
        with database.read() as connection:
            assert connection.execute(text("SELECT 1")).scalar_one() == 1


@pytest.mark.parametrize("kind", ["postgres"])
def test_no_statement_is_prepared_behind_a_pooler(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PgBouncer in transaction mode gives each statement another session, which others have used."""
    for pid, is_pooled in (("pg_backend_pid()", False), ("1 + pg_backend_pid()", True)):
        monkeypatch.setattr(statements, "_SESSION", f"SELECT {pid}")
        database = Database(url, pool_size=1)  # one session at a time, for all that it does
        read_often(database)
        assert (list_prepared(database) == {}) is is_pooled
        with database.read() as connection:
            prepared = connection.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one()
        assert (prepared == 0) is is_pooled
        database.close()


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_prepared_statement_is_named_by_its_text(url: str) -> None:
    """In a session that others use too, no other statement may be executed in its place."""
    databases = [Database(url), Database(url)]
    other = Statement(select(cast(bindparam("number"), BigInteger).label("number")))
    databases[0].query(other, {"number": 1})
    for database in databases:
        read_often(database)
    names = [list_prepared(database) for database in databases]
    assert names[1].items() <= names[0].items()
    assert len(set(names[0].values())) == len(names[0]) == len(names[1]) + 1
    for database in databases:
        database.close()


def test_the_file_is_readable_by_its_user_only(tmp_path: Path) -> None:
    path = tmp_path / "service.db"
    url = f"sqlite:///{path}"
    old = os.umask(0o022)
    try:
        upgrade(url)
        for kept in (0o600, 0o644):  # new, and one of an earlier version
            path.chmod(kept)
            database = Database(url)
            with database.write() as connection:
                connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
                modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()}
            assert modes == {"service.db": 0o600, "service.db-wal": 0o600, "service.db-shm": 0o600}
            database.close()
    finally:
        os.umask(old)
