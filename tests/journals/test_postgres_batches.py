"""Operations of many callers in one transaction: each gets its own answer, or its own error."""

from typing import Any, cast

import psycopg
import pytest

from faregate.errors import JournalError
from faregate.journals.postgres import PostgresJournal, pipeline
from faregate.journals.postgres.store import PostgresStore, _insert
from faregate.journals.row_operations import Delete, Find, FindResult, Insert, Replace, RowOperation
from faregate.journals.store import Record, TransactionTaken
from faregate.journals.writer import Task
from tests.journals import postgres_schema
from tests.journals.postgres_schema import asked, asked_inside, get_store
from tests.journals.records import BEGUN
from tests.journals.test_postgres_network import distant, network, record
from tests.servers.network import Network

__all__ = ["distant", "network"]

url, journal = postgres_schema.url, postgres_schema.journal
KEYS = [bytes([number]) * 32 for number in range(9)]


@pytest.fixture
def store(journal: PostgresJournal) -> PostgresStore:
    """With the rows 1, 2 and 3, which are claimed."""
    store = get_store(journal)
    for number in (1, 2, 3):
        assert perform(store, insert(number)) == [True]
    return store


def insert(number: int) -> Insert:
    return Insert(record(number), [KEYS[number]], 0.0)


def start(number: int, transaction_id: str, durable: bool = True) -> Replace:
    changes = {**BEGUN, "transaction_id": transaction_id, "state": "running", "stamp": 50 + number}
    return Replace(KEYS[number], number, changes, durable)


def perform(store: PostgresStore, *operations: RowOperation) -> list[Any]:
    """What each gives or raises, as one batch."""
    tasks = [Task(store.prepare(operation)) for operation in operations]
    store._execute(tasks)
    return [task.error or task.result for task in tasks]


def transactions(url: str) -> list[Any]:
    found = asked(url, "SELECT transaction_id FROM faregate_journal ORDER BY key")
    return [transaction_id for [transaction_id] in found]


def test_a_batch_is_one_transaction(store: PostgresStore, url: str) -> None:
    answers = perform(
        store,
        start(1, "txn1"),
        insert(4),
        Find([KEYS[2]]),
        Delete(KEYS[2], 2),
        Delete(KEYS[3], 7),
        insert(3),
        Find([KEYS[5]]),
        FindResult(KEYS[1]),
    )
    found = cast(dict[str, Any], answers[2])
    assert found["stamp"] == 2
    assert [*answers[:2], *answers[3:]] == [True, True, True, False, False, None, None]
    assert transactions(url) == ["txn1", None, None]
    written = asked(url, "SELECT count(DISTINCT xmin::text) FROM faregate_journal WHERE stamp IN (51, 4)")
    assert written == [(1,)]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_impossible_row_does_not_touch_the_others(store: PostgresStore, url: str, position: int) -> None:
    operations: list[RowOperation] = [start(1, "txn1"), start(3, "txn3")]
    operations.insert(position, Replace(KEYS[2], 2, {"size": -1, "stamp": 52}, True))
    answers = perform(store, *operations)
    assert isinstance(error := answers.pop(position), JournalError)
    assert "impossible row" in str(error)
    assert answers == [True, True]
    assert transactions(url) == ["txn1", None, "txn3"]


def test_one_of_a_batch_gets_the_transaction(store: PostgresStore, url: str) -> None:
    first, second, third = perform(store, start(1, "same"), start(2, "same"), start(3, "another"))
    assert (first, third) == (True, True)
    assert isinstance(second, TransactionTaken)
    assert transactions(url) == ["same", None, "another"]


def test_a_transaction_is_not_taken_by_one_that_was_rolled_back(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What conflicts within a batch is tried again alone: the other may not be written after all."""
    attempt = store._try

    def try_and_change(batch: Any) -> Any:
        failure = attempt(batch)
        asked(url, "UPDATE faregate_journal SET stamp = 99 WHERE stamp = 1")
        return failure

    monkeypatch.setattr(store, "_try", try_and_change)
    assert perform(store, start(1, "same"), start(2, "same")) == [False, True]
    assert transactions(url) == [None, "same", None]


def test_a_row_that_others_lock_does_not_fail_the_others(store: PostgresStore, url: str) -> None:
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM faregate_journal WHERE stamp = 1 FOR UPDATE")
        locked, written = perform(store, start(1, "txn1"), start(2, "txn2"))
        assert isinstance(locked, JournalError)
        assert "locked for another writer" in str(locked)
        assert written is True
    assert transactions(url) == [None, "txn2", None]


@pytest.mark.parametrize("order", [1, -1])
def test_one_durable_write_makes_all_of_its_batch_durable(
    store: PostgresStore, journal: PostgresJournal, url: str, order: int
) -> None:
    asked(url, "CREATE TABLE setting (value text)")
    asked(
        url,
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO setting VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$",
    )
    asked(
        url,
        "CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON faregate_journal "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()",
    )
    assert perform(store, *[start(1, "txn1"), start(2, "txn2", durable=False)][::order]) == [True, True]
    assert asked(url, "SELECT value FROM setting") == [("on",)] * 2
    assert perform(store, start(3, "txn3", durable=False)) == [True]
    assert asked(url, "SELECT value FROM setting")[2:] == [("off",)]
    assert asked_inside(journal, "SHOW synchronous_commit") == "on"


@pytest.mark.parametrize("what", ["answer", "request"])
def test_a_batch_whose_response_is_lost_gives_the_same(
    distant: PostgresJournal, network: Network, what: str
) -> None:
    network.lose(what)
    other = Insert(cast(Record, {**record(4), "stamp": 7}), [KEYS[4]], 0.0)
    answers = perform(
        get_store(distant), insert(2), start(1, "txn1"), Delete(KEYS[3], 3), Delete(KEYS[4], 7), other
    )
    assert network.lost == 1
    assert answers == [True, True, True, False, False]


def test_a_batch_whose_second_statement_is_not_prepared_is_written_once(
    store: PostgresStore, url: str
) -> None:
    assert perform(store, start(3, "txn3")) == [True]
    name = pipeline._compile(_insert(1)).name.decode()
    store._pool.run(lambda connection, _: connection.execute(f"DEALLOCATE {name}".encode()))
    assert perform(store, start(1, "txn1"), insert(4), start(2, "txn2")) == [True, True, True]
    assert transactions(url) == ["txn1", "txn2", "txn3", None]


def test_a_statement_that_takes_too_long_fails_alone(url: str) -> None:
    journal = postgres_schema.postgres(postgres_schema.with_setting(url, "statement_timeout=150"), timeout=5)
    store = get_store(journal)
    assert perform(store, insert(1), insert(2), insert(3)) == [True, True, True]
    asked(
        url,
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(9); RETURN NEW; END $$",
    )
    asked(
        url,
        "CREATE TRIGGER wait BEFORE UPDATE ON faregate_journal FOR EACH ROW "
        "WHEN (NEW.transaction_id = 'txn2') EXECUTE FUNCTION wait()",
    )
    answers = perform(store, start(1, "txn1"), start(2, "txn2"), start(3, "txn3"))
    assert [type(answer) for answer in answers] == [bool, JournalError, bool]
    assert transactions(url) == ["txn1", None, "txn3"]
    journal.disconnect()
