"""Many operations in one round trip to Redis: each is performed once, whatever happens to the others."""

import itertools
from collections.abc import Generator, Sequence
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from faregate.errors import JournalError
from faregate.journals.redis.client import ScriptClient
from faregate.journals.redis.store import APART, RedisStore
from faregate.journals.row_operations import Delete, Find, Insert, Replace, RowOperation
from faregate.journals.store import TransactionTaken
from faregate.journals.writer import Task
from tests.journals.redis_journal import ask, running
from tests.journals.test_redis_scripts import ENCRYPTED, NOW, OK, RUNNING, put, record
from tests.servers import Network, RedisServer, lossy_network

OPERATIONS = 8


@pytest.fixture(scope="module")
def _server() -> Generator[RedisServer]:
    with running() as made:
        yield made


@pytest.fixture
def server(_server: RedisServer) -> RedisServer:
    ask(_server, "FLUSHALL")
    return _server


@pytest.fixture
def network(server: RedisServer) -> Generator[Network]:
    with lossy_network(server.port) as made:
        yield made


@pytest.fixture
def store(network: Network) -> Generator[RedisStore]:
    """In use: it is connected, and there is a journal."""
    made = RedisStore(ScriptClient(f"redis://127.0.0.1:{network.port}/0", "test", 20))
    assert made.measure() == (0, 0)
    yield made
    made.disconnect()


def perform(store: RedisStore, *operations: RowOperation) -> list[Any]:
    """What each gives, or the error that it raises."""
    tasks = [Task(store.prepare(operation)) for operation in operations]
    store._client._execute(tasks)
    return [task.error or task.result for task in tasks]


def insert(name: str, **changes: Any) -> Insert:
    row = record(name, **changes)
    return Insert(row, [row["key"]], NOW)


def names(count: int = OPERATIONS) -> Sequence[str]:
    return "abcdefghijklmnop"[:count]


def test_a_batch_is_one_round_trip(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    [connection] = store._client._connections._idle.values()
    sent: list[Sequence[bytes]] = []
    send = connection.send_packed_command

    def sending(parts: Sequence[bytes]) -> None:
        sent.append(parts)
        send(parts)

    monkeypatch.setattr(connection, "send_packed_command", sending)
    assert perform(store, *(insert(name) for name in names())) == [True] * OPERATIONS
    assert [len(parts) for parts in sent] == [1]
    assert store.measure() == (OPERATIONS, 0)


def test_an_error_of_one_does_not_touch_the_others(store: RedisStore) -> None:
    one, other = put(store, RUNNING), put(store, name="b")
    given = perform(
        store,
        insert("c"),
        Replace(other["key"], other["stamp"], {"stamp": 1, **RUNNING}, True),
        Replace(one["key"], one["stamp"], {"stamp": 1, "state": "novel"}, True),
        Replace(one["key"], one["stamp"], {"stamp": 1, **OK}, True),
        Replace(one["key"], one["stamp"], {"stamp": 2}, True),
        Delete(other["key"], other["stamp"]),
    )
    assert isinstance(given[1], TransactionTaken)
    assert isinstance(given[2], JournalError)
    assert [given[0], *given[3:]] == [True, True, False, True]


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_batch_whose_connection_is_lost_is_done_once(
    store: RedisStore, network: Network, lost: str
) -> None:
    rows = [put(store, name=name) for name in names()]
    network.lose(lost)
    half = OPERATIONS // 2
    given = perform(
        store,
        *(Delete(row["key"], row["stamp"]) for row in rows[:half]),
        *(
            Replace(
                row["key"], row["stamp"], {"stamp": 1, **RUNNING, "transaction_id": f"txn_{number}"}, True
            )
            for number, row in enumerate(rows[half:])
        ),
        insert("z"),
    )
    assert network.lost == 1
    assert given == [True] * (OPERATIONS + 1)
    assert store.measure() == (half + 1, 0)
    assert sorted(row["stamp"] for row in store.list_owed(100)) == [1] * half


def test_a_connection_lost_between_two_replies_repeats_the_second_only(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    [connection] = store._client._connections._idle.values()
    replies, read = itertools.count(1), connection.read_response

    def reading() -> Any:
        if next(replies) == 2:
            raise ConnectionError
        return read()

    monkeypatch.setattr(connection, "read_response", reading)
    send, attempts = store._client._connections.send, list[int]()

    def sending(commands: Sequence[Sequence[bytes]]) -> list[Any]:
        attempts.append(len(commands))
        return send(commands)

    monkeypatch.setattr(store._client._connections, "send", sending)
    assert perform(store, *(insert(name) for name in names())) == [True] * OPERATIONS
    assert attempts == [OPERATIONS, OPERATIONS - 1]
    assert store.measure() == (OPERATIONS, 0)


def test_scripts_that_the_server_forgot_are_sent_once_for_a_batch(
    server: RedisServer, store: RedisStore
) -> None:
    ask(server, "SCRIPT", "FLUSH")
    ask(server, "CONFIG", "RESETSTAT")
    assert perform(store, *(insert(name) for name in names())) == [True] * OPERATIONS
    [loads] = [
        line for line in ask(server, "INFO", "commandstats").decode().splitlines() if "script|load" in line
    ]
    assert "calls=1," in loads


def test_an_emptied_journal_refuses_a_whole_batch(server: RedisServer, store: RedisStore) -> None:
    ask(server, "FLUSHALL")
    given = perform(store, *(insert(name) for name in names()))
    assert {type(error).__name__ for error in given} == {"JournalUnreadable"}
    assert len({id(error) for error in given}) == OPERATIONS


def test_large_and_small_results_share_a_batch(store: RedisStore) -> None:
    rows = [put(store, {**RUNNING, "transaction_id": name}, name=name) for name in names(3)]
    results = [ENCRYPTED, b"x" * (APART + 1), b"y" * 5_000_000]
    given = perform(
        store,
        *(
            Replace(row["key"], row["stamp"], {"stamp": 1, "state": "ok", "result": result, "size": 1}, True)
            for row, result in zip(rows, results, strict=True)
        ),
        Find([rows[0]["key"]]),
    )
    assert given[:3] == [True] * 3
    assert given[3]["result"] is None
    assert [store.find_result(row["key"]) for row in rows] == results
