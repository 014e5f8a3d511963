"""The scripts of the Redis journal: what they refuse, what they leave behind, and what a repetition does."""

import itertools
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import pytest

from faregate.errors import JournalError
from faregate.journals.redis.client import NAMESPACES, ScriptClient
from faregate.journals.redis.connections import Connections
from faregate.journals.redis.store import APART, RedisStore
from faregate.journals.store import Record, TransactionTaken
from tests.journals.stores import LEASED, due_at
from tests.servers import REDIS_MISSING, Network, RedisServer, lossy_network
from tests.servers.shared import need

NOW, LEASE, LATER = 1000.0, 1030.0, 1060.25
ENCRYPTED = b"\x00sealed\xff\r\n"


@pytest.fixture(scope="module")
def _server() -> Generator[RedisServer]:
    need("redis", REDIS_MISSING)
    made = RedisServer()
    try:
        made.open()
        yield made
    finally:
        made.leave()


@pytest.fixture
def server(_server: RedisServer) -> RedisServer:
    """An empty one."""
    connections = Connections(_server.url, 5)
    connections.call("FLUSHALL")
    connections.close()
    return _server


@pytest.fixture
def store(server: RedisServer) -> Generator[RedisStore]:
    made = RedisStore(ScriptClient(server.url, "test", 20))
    yield made
    made.disconnect()


def record(name: str = "a", **changes: Any) -> Record:
    row: dict[str, Any] = {
        "key": name.encode() * 32, "stamp": 2**62 + 1, "fence": 2**62 + 3, "generation": 1,
        "state": "claimed", "request": "5e", "transaction_id": None, "revision_id": "",
        "since": NOW,
        **LEASED,
        "lease_until": LEASE, "due_at": 0.0, "expires_at": LATER, "forget_at": None, "delivered": False,
        "redelivered": 0, "holds_so_far": 0, "size": 0, "reason": "", "proof": ENCRYPTED,
        "request_line": ENCRYPTED, "payer": None,
        "payment_response": None, "receipt": None, "result": None,
    }  # fmt: skip
    return Record(**{**row, **changes})  # type: ignore[typeddict-item]


RUNNING: dict[str, Any] = {"state": "running", "transaction_id": "txn_1", "expires_at": None}
OK: dict[str, Any] = {"state": "ok", "result": ENCRYPTED, "size": 9}
FINAL: dict[str, Any] = {"proof": None, "expires_at": LATER}
SETTLED: dict[str, Any] = {
    "state": "settled",
    "payment_response": ENCRYPTED,
    "receipt": ENCRYPTED,
    "forget_at": LATER + 1,
    **FINAL,
}
DELIVERED: dict[str, Any] = {**SETTLED, "delivered": True}
CLOSED: dict[str, Any] = {"state": "closed", "result": None, "size": 0, **FINAL}
STUCK: dict[str, Any] = {"state": "stuck", "reason": "404"}
Steps = tuple[dict[str, Any], ...]


def put(store: RedisStore, *steps: dict[str, Any], name: str = "a", **more: Any) -> Record:
    """A row that went through these steps."""
    row = record(name, **more)
    assert store.insert(row, [row["key"]], NOW)
    for step in steps:
        row = moved(store, row, step)
    return row


def moved(store: RedisStore, row: Record, step: dict[str, Any]) -> Record:
    changes = {**step, "stamp": row["stamp"] + 1}
    assert store.replace(row["key"], row["stamp"], changes, True)
    return Record(**{**row, **changes})  # type: ignore[typeddict-item]


def found(store: RedisStore, name: str = "a") -> Record | None:
    """The row with its result, which is read apart from it."""
    row = store.find([name.encode() * 32])
    if row is not None:
        assert row["result"] is None
        row["result"] = store.find_result(row["key"])
    return row


def kept(server: RedisServer) -> dict[str, str]:
    """Every key there is, without its prefix, and of what type it is."""
    connections = Connections(server.url, 5)
    names = {name.decode() for name in connections.call("KEYS", "*")} - {NAMESPACES}
    types = {name: connections.call("TYPE", name).decode() for name in names}
    connections.close()
    return {name.rpartition("}:")[2]: types[name] for name in names}


# What is written is read


@pytest.mark.parametrize(
    "steps", [(), (RUNNING,), (RUNNING, OK), (RUNNING, OK, SETTLED), (RUNNING, OK, STUCK)]
)
def test_a_row_is_read_as_it_was_written(store: RedisStore, steps: Steps) -> None:
    row = put(store, *steps, delivered=True, due_at=1 / 3, redelivered=2)
    assert found(store) == row
    assert store.find_transaction("txn_1") == ({**row, "result": None} if steps else None)


def test_of_several_candidate_keys_the_first_is_found(store: RedisStore) -> None:
    one, other = put(store), put(store, name="b")
    assert store.find([b"c" * 32, other["key"], one["key"]]) == other
    assert not store.insert(record("c"), [b"c" * 32, one["key"]], NOW)


def test_a_large_result_is_stored_apart_and_deleted_with_its_row(
    server: RedisServer, store: RedisStore
) -> None:
    large = {**OK, "result": b"x" * (APART + 1), "size": APART}
    row = put(store, RUNNING, large)
    assert found(store) == row
    assert kept(server)[f"result:{row['key'].hex()}"] == "string"
    assert store.measure() == (1, APART)
    moved(store, row, CLOSED)
    assert not any(name.startswith("result:") for name in kept(server))
    assert store.measure() == (1, 0)


@pytest.mark.parametrize("how", ["purge", "delete", "insert"])
def test_a_deleted_row_leaves_no_key_behind(server: RedisServer, store: RedisStore, how: str) -> None:
    row = put(store, RUNNING, {**OK, "result": b"x" * (APART + 1)}, DELIVERED, authorization_hash="ab")
    assert kept(server)["authorizations"] == "zset"
    if how == "purge":
        assert (store.purge(LATER, 10), store.drop_results(LATER - 1, 10)) == (0, 0)
        assert (store.drop_results(LATER, 10), store.drop_results(LATER, 10)) == (1, 0)
        assert not any(name.startswith("result:") for name in kept(server))
        assert (store.measure(), store.purge(LATER, 10)) == ((1, 0), 0)
        assert (store.purge(LATER + 1, 10), store.purge(LATER + 1, 10)) == (1, 0)
    else:
        if how == "insert":
            assert store.insert(record("b"), [b"b" * 32], LATER + 1)
            row = record("b")
        assert store.delete(row["key"], row["stamp"])
    assert kept(server) == {"schema": "string", "bytes": "string"}
    assert store.measure() == (0, 0)
    owed = put(store, RUNNING)
    assert store.delete(owed["key"], owed["stamp"])
    assert kept(server) == {"schema": "string", "bytes": "string"}
    assert put(store, RUNNING)["transaction_id"] == "txn_1"


def test_all_keys_of_a_journal_have_one_hash_tag(server: RedisServer) -> None:
    """So that a proxy which spreads keys over several servers keeps them together."""
    assert len({name.partition(b"}")[0] for name in everything(server)}) == 1


def everything(server: RedisServer) -> list[bytes]:
    """Every script is run once; the names of all keys then."""
    store = RedisStore(ScriptClient(server.url, "everything", 20))
    row = put(store, RUNNING, {**OK, "result": b"x" * (APART + 1)})
    put(store, name="b")
    assert store.delete(b"b" * 32, record()["stamp"])
    assert store.take_due(due_at(LEASE), {"stamp": 1, "fence": 1, "lease_until": LATER}) is not None
    assert store.find_transaction("txn_1") is not None
    assert (len(store.list_owed(10)), store.purge(NOW, 1), store.measure()) == (1, 0, (1, row["size"]))
    names: list[bytes] = store._client._connections.call("KEYS", "*")
    store.disconnect()
    names.remove(NAMESPACES.encode())  # of the whole server
    assert len(names) == 9
    return names


# What is refused


@pytest.mark.parametrize("first", [ENCRYPTED, b"x" * (APART + 1)])
@pytest.mark.parametrize("second", [b"other", b"y" * (APART + 1)])
def test_a_result_that_is_stored_apart_is_decided_once(
    store: RedisStore, first: bytes, second: bytes
) -> None:
    row = put(store, RUNNING, {**OK, "result": first})
    with pytest.raises(JournalError, match="impossible row: decided_once"):
        store.replace(row["key"], row["stamp"], {"stamp": 1, "result": second}, True)
    assert found(store) == row


@pytest.mark.parametrize("changes", [{"state": "running"}, {"proof": None}, {"result": ENCRYPTED}])
def test_an_impossible_new_row_is_refused(
    server: RedisServer, store: RedisStore, changes: dict[str, Any]
) -> None:
    with pytest.raises(JournalError, match="impossible row"):
        store.insert(record(**changes), [b"a" * 32], NOW)
    assert kept(server) == {"schema": "string"}


def test_a_transaction_belongs_to_one_row_until_it_is_deleted(store: RedisStore) -> None:
    put(store, RUNNING, OK, DELIVERED)
    twin = put(store, name="b")
    with pytest.raises(TransactionTaken):
        store.replace(twin["key"], twin["stamp"], {"stamp": 1, **RUNNING}, True)
    assert found(store, "b") == twin
    assert (store.drop_results(LATER, 1), store.forget_delivered(1)) == (1, 1)
    twin = moved(store, twin, RUNNING)
    moved(store, twin, {"transaction_id": "txn_1"})


def test_an_older_stamp_writes_nothing(store: RedisStore) -> None:
    row = put(store)
    assert not store.replace(row["key"], row["stamp"] - 1, {"stamp": 1, **RUNNING}, True)
    assert not store.delete(row["key"], row["stamp"] - 1)
    assert not store.delete(b"b" * 32, row["stamp"])
    assert not store.replace(b"b" * 32, row["stamp"], {"stamp": 1}, True)
    assert found(store) == row


# The sweep


def test_the_longest_due_row_is_taken_first_and_stuck_rows_never(store: RedisStore) -> None:
    for name, lease, due in (("a", 30.0, 10.0), ("b", 10.0, 40.0), ("c", 20.0, 51.0), ("d", 51.0, 0.0)):
        put(store, {**RUNNING, "transaction_id": name}, name=name, lease_until=lease, due_at=due)
    put(store, {**RUNNING, **STUCK, "transaction_id": "e"}, name="e", lease_until=0.0)
    put(store, name="f", lease_until=0.0, expires_at=1.0)
    taken = [
        store.take_due(due_at(50.0), {"stamp": n, "fence": n, "lease_until": 100.0 + n}) for n in range(4)
    ]
    assert [row and (row["transaction_id"], row["stamp"], row["lease_until"]) for row in taken] == [
        ("b", 0, 100.0), ("a", 1, 101.0), None, None
    ]  # fmt: skip
    assert found(store, "b") == taken[0]


def test_open_rows_are_listed_oldest_first(store: RedisStore) -> None:
    for name, since, state in (("a", 3.0, RUNNING), ("b", 1.0, RUNNING), ("c", 2.0, STUCK)):
        put(store, {**RUNNING, **state, "transaction_id": name}, name=name, since=since)
    put(store, name="d", since=0.0)
    put(store, {**RUNNING, "transaction_id": "e"}, CLOSED, name="e", since=0.0)
    assert [row["transaction_id"] for row in store.list_owed(10)] == ["b", "c", "a"]
    assert [row["transaction_id"] for row in store.list_owed(2)] == ["b", "c"]
    assert store.list_owed(0) == []


# Lost answers


@pytest.fixture
def network(server: RedisServer) -> Generator[Network]:
    with lossy_network(server.port) as made:
        yield made


@pytest.fixture
def far(server: RedisServer, network: Network) -> Generator[RedisStore]:
    """A store behind the network, in use for some time: the server knows its scripts."""
    everything(server)
    made = RedisStore(ScriptClient(f"redis://127.0.0.1:{network.port}/0", "far", 20))
    assert made.measure() == (0, 0)
    yield made
    made.disconnect()


STARTING = {"stamp": 7, **RUNNING}
TAKING = {"stamp": 7, "fence": 8, "lease_until": LATER}
CALLS: dict[str, tuple[Steps | None, Callable[[RedisStore, Record], Any]]] = {
    "insert": (None, lambda store, row: store.insert(row, [row["key"]], NOW)),
    "replace": ((), lambda store, row: store.replace(row["key"], row["stamp"], STARTING, True)),
    "delete": ((), lambda store, row: store.delete(row["key"], row["stamp"])),
    "take_due": ((RUNNING,), lambda store, row: store.take_due(due_at(LEASE), TAKING)),
    "find": ((RUNNING,), lambda store, row: store.find([row["key"]])),
    "find_transaction": ((RUNNING,), lambda store, row: store.find_transaction("txn_1")),
    "owed": ((RUNNING,), lambda store, row: store.list_owed(5)),
    "measure": ((RUNNING, OK), lambda store, row: store.measure()),
}


@pytest.mark.parametrize("lost", ["answer", "request"])
@pytest.mark.parametrize("call", CALLS)
def test_a_command_whose_request_or_reply_is_lost_is_done_once(
    store: RedisStore, far: RedisStore, network: Network, call: str, lost: str
) -> None:
    steps, act = CALLS[call]
    rows = [record() if steps is None else put(each, *steps) for each in (store, far)]
    network.lose(lost)
    expected, said = act(store, rows[0]), act(far, rows[1])
    assert network.lost == 1
    assert said == expected
    assert said
    assert found(far) == found(store)
    assert far.measure() == store.measure()


def test_a_sweep_whose_reply_was_lost_takes_one_row(far: RedisStore, network: Network) -> None:
    for name in "ab":
        put(far, {**RUNNING, "transaction_id": name}, name=name)
    network.lose("answer")
    row = far.take_due(due_at(LEASE), TAKING)
    assert row is not None
    assert [other["stamp"] == 7 for other in far.list_owed(5)].count(True) == 1


def test_a_command_that_is_lost_twice_is_an_error_and_may_be_repeated(
    far: RedisStore, network: Network
) -> None:
    """The second time at every answer there is, those of connecting among them: it may have been made."""
    for after in itertools.count():
        row, lost = record(chr(97 + after)), network.lost
        network.lose("request")
        network.lose("answer", after)
        with suppress(JournalError):
            assert far.insert(row, [row["key"]], NOW)
            break
        assert network.lost == lost + 2
        assert far.find([row["key"]]) in (None, row)
        assert far.insert(row, [row["key"]], NOW)
        assert far.find([row["key"]]) == row
    assert after > 0


def test_a_row_inserted_by_another_is_not_mistaken_for_ours(store: RedisStore) -> None:
    row = put(store)
    assert store.delete(row["key"], row["stamp"])
    put(store, stamp=5)
    assert not store.insert(row, [row["key"]], NOW)
    assert found(store) == record(stamp=5)
