"""Writes of many callers in one statement: each gets its own answer, or its own error."""

import sqlite3
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from faregate.errors import JournalError
from faregate.journals.row_operations import Delete, Find, Insert, Replace, RowOperation
from faregate.journals.sqlite.batch import RowWrite
from faregate.journals.sqlite.database import SqliteDatabase
from faregate.journals.sqlite.store import SqliteStore
from faregate.journals.store import Record, TransactionTaken
from faregate.journals.writer import Task
from tests.journals.records import BEGUN, CLAIMED

KEYS = [bytes([number]) * 32 for number in range(99)]


@pytest.fixture
def database(tmp_path: Path) -> Generator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "journal.db", 20)
    yield database
    database.disconnect()


@pytest.fixture
def store(database: SqliteDatabase) -> SqliteStore:
    """With the rows 1, 2 and 3, which are claimed."""
    store = SqliteStore(database, "test")
    store._purge_at = 1.0  # the first insertion is one like the others
    assert perform(store, *(insert(number) for number in (1, 2, 3))) == [True] * 3
    return store


def insert(number: int, *candidates: int, **changes: Any) -> Insert:
    record = cast(Record, {"key": KEYS[number], "seller": "", "key_id": "", "client": "", "body": ""})
    record = cast(Record, {**record, **CLAIMED, "stamp": number, **changes})
    ordered = cast(Record, {name: cast(Any, record)[name] for name in Record.__annotations__})
    return Insert(ordered, [KEYS[number], *(KEYS[other] for other in candidates)], 0.5)


def start(number: int, transaction_id: str, stamp: int | None = None, state: str = "running") -> Replace:
    changes = {**BEGUN, "transaction_id": transaction_id, "state": state, "stamp": 100 + number}
    return Replace(KEYS[number], number if stamp is None else stamp, changes, True)


def perform(store: SqliteStore, *operations: RowOperation) -> list[Any]:
    """What each gives or raises, as one batch."""
    tasks = [Task(store.prepare(operation)) for operation in operations]
    store._database._execute(tasks)
    return [task.error or task.result for task in tasks]


def rows(database: SqliteDatabase) -> list[Any]:
    query = "SELECT key, stamp, coalesce(transaction_id, '-') FROM journal ORDER BY key"
    found = database.read(lambda connection: connection.execute(query).fetchall())
    return [(key[0], *rest) for key, *rest in found]


def test_writes_of_one_form_are_one_statement(store: SqliteStore, database: SqliteDatabase) -> None:
    said: list[str] = []
    database.write(lambda connection: connection.set_trace_callback(said.append))
    assert perform(store, *(insert(number) for number in range(4, 90))) == [True] * 86
    assert perform(store, *(start(number, f"txn{number}") for number in range(1, 90))) == [True] * 89
    # A set: a statement is said again for each trigger that it sets off.
    assert sorted(one.split()[0] for one in set(said) if "journal" in one) == ["INSERT", "UPDATE"]
    assert rows(database) == [(number, 100 + number, f"txn{number}") for number in range(1, 90)]


def test_the_write_of_one_row_makes_no_table(store: SqliteStore, database: SqliteDatabase) -> None:
    """As SQLite does to compare with a list of more than two values: an eighth of a whole sale."""

    def explain(connection: sqlite3.Connection, write: RowWrite) -> list[str]:
        return [row[1] for row in connection.execute(f"EXPLAIN {write.make_sql(1)}", write.values)]

    for operation in (insert(4), start(1, "txn1")):
        write = cast(RowWrite, store.prepare(operation))
        steps = database.read(partial(explain, write=write))
        assert "OpenWrite" in steps
        assert "OpenEphemeral" not in steps


def test_a_proof_is_claimed_once_in_a_batch(store: SqliteStore, database: SqliteDatabase) -> None:
    batch = insert(4), insert(1, stamp=71), insert(4, stamp=74), insert(5), insert(4, stamp=75)
    assert perform(store, *batch) == [True, False, False, True, False]
    assert rows(database) == [(number, number, "-") for number in (1, 2, 3, 4, 5)]


def test_a_proof_that_an_older_key_knows_is_not_claimed(store: SqliteStore, database: SqliteDatabase) -> None:
    assert perform(store, insert(4, 50), insert(5, 2), insert(6, 51)) == [True, False, True]
    assert rows(database) == [(number, number, "-") for number in (1, 2, 3, 4, 6)]


def test_a_row_that_another_has_written_is_not_written(store: SqliteStore, database: SqliteDatabase) -> None:
    assert perform(store, start(1, "txn1"), start(2, "txn2", stamp=9), start(3, "txn3")) == [
        True,
        False,
        True,
    ]
    assert rows(database) == [(1, 101, "txn1"), (2, 2, "-"), (3, 103, "txn3")]


def test_one_of_two_writes_to_a_row_is_made(store: SqliteStore, database: SqliteDatabase) -> None:
    other = start(1, "other")
    again = other._replace(changes={**other.changes, "stamp": 200})
    assert sorted(perform(store, start(1, "txn1"), again, start(2, "txn2"))) == [False, True, True]
    assert [row[0] for row in rows(database) if row[2] != "-"] == [1, 2]


def test_a_transaction_of_another_row_is_refused_to_one(store: SqliteStore, database: SqliteDatabase) -> None:
    assert perform(store, start(1, "txn1")) == [True]
    first, taken, third = perform(store, start(2, "txn2"), start(3, "txn1"), Delete(KEYS[1], 7))
    assert (first, type(taken), third) == (True, TransactionTaken, False)
    assert rows(database) == [(1, 101, "txn1"), (2, 102, "txn2"), (3, 3, "-")]


def test_a_transaction_that_two_name_is_given_to_the_first(
    store: SqliteStore, database: SqliteDatabase
) -> None:
    answers = perform(store, start(1, "txn"), start(2, "txn"), start(3, "txn3"))
    assert [type(answer) for answer in answers] == [bool, TransactionTaken, bool]
    assert rows(database) == [(1, 101, "txn"), (2, 2, "-"), (3, 103, "txn3")]


def test_an_impossible_row_is_refused_alone(store: SqliteStore, database: SqliteDatabase) -> None:
    answers = perform(store, start(1, "txn1"), start(2, "txn2", state="?"), start(3, "txn3"))
    assert [type(answer) for answer in answers] == [bool, JournalError, bool]
    assert rows(database) == [(1, 101, "txn1"), (2, 2, "-"), (3, 103, "txn3")]
    answers = perform(store, insert(4), insert(5, state="?"))
    assert [type(answer) for answer in answers] == [bool, JournalError]


def test_each_kind_of_operation_shares_a_batch(store: SqliteStore) -> None:
    found, started, inserted, deleted, gone = perform(
        store, Find([KEYS[2]]), start(1, "txn1"), insert(4), Delete(KEYS[3], 3), Find([KEYS[9]])
    )
    assert found["stamp"] == 2
    assert (started, inserted, deleted, gone) == (True, True, True, None)


def test_an_old_sqlite_writes_one_row_at_a_time(
    store: SqliteStore, database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faregate.journals.sqlite.batch._MAY_JOIN", False)
    assert perform(store, insert(4), start(1, "txn1"), start(2, "txn2", stamp=9)) == [True, True, False]
    assert rows(database) == [(1, 101, "txn1"), (2, 2, "-"), (3, 3, "-"), (4, 4, "-")]


def test_a_full_disk_fails_them_all(store: SqliteStore, database: SqliteDatabase) -> None:
    def limit(connection: sqlite3.Connection) -> None:
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    database.write(limit)
    answers = perform(store, *(insert(number, proof=b"x" * 9000) for number in range(4, 8)))
    assert ["no room" in str(answer) for answer in answers] == [True] * 4
    assert len(rows(database)) == 3


def test_a_batch_may_have_more_rows_than_a_statement(store: SqliteStore, database: SqliteDatabase) -> None:
    def limit(connection: sqlite3.Connection) -> None:
        connection.setlimit(
            sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32766
        )  # SQLite's default; Debian's is larger

    database.write(limit)
    keys = [number.to_bytes(32, "big") for number in range(1100)]
    inserts = [insert(4, key=key, stamp=1000 + number) for number, key in enumerate(keys)]
    assert perform(store, *inserts) == [True] * 1100
    assert len(rows(database)) == 1103
