"""What gets lost on the way to a PostgreSQL server and back: a call that is made again says the same."""

import os
import signal
from collections.abc import Callable, Generator
from typing import Any, cast

import psycopg
import pytest

from faregate.errors import JournalError
from faregate.journals.postgres import PostgresJournal
from faregate.journals.store import Record
from tests.journals import postgres_schema
from tests.journals.postgres_schema import asked, asked_inside, get_store, postgres
from tests.journals.records import BEGUN, CLAIMED
from tests.journals.rows import GOOD, HERE, started
from tests.journals.stores import due_at
from tests.servers.network import Network, lossy_network

url, journal = postgres_schema.url, postgres_schema.journal
MY_PID = "SELECT pg_backend_pid()"
TAKING = {"fence": 9, "lease_until": 1e9, "stamp": 99}


def record(number: int, state: str = "claimed") -> Record:
    bound = {**BEGUN, "transaction_id": f"txn{number}", "state": state} if state != "claimed" else {}
    return cast(Record, {"key": bytes([number]) * 32, **CLAIMED, "stamp": number, **bound})


RowStore = Any
WRITES: dict[str, tuple[Callable[[RowStore], Any], Any]] = {
    "insert": (lambda store: store.insert(record(2), [record(2)["key"]], 0.0), True),
    "replace": (
        lambda store: store.replace(
            record(1)["key"], 1, {**BEGUN, "state": "running", "result": None, "stamp": 50}, True
        ),
        True,
    ),
    "delete": (lambda store: store.delete(record(1)["key"], 1), True),
    "take_due": (lambda store: store.take_due(due_at(100.0), TAKING)["transaction_id"], "txn3"),
    "find": (lambda store: store.find([record(1)["key"]])["stamp"], 1),
    "measure": (lambda store: store.measure(), (3, 0)),
}


@pytest.fixture
def network(url: str) -> Generator[Network]:
    with lossy_network(port_of(url)) as network:
        yield network


@pytest.fixture
def distant(url: str, network: Network) -> Generator[PostgresJournal]:
    """A journal on the other side of a network that loses things, with a claimed row and two that are due."""
    made = postgres(url.replace(f":{port_of(url)}/", f":{network.port}/"), timeout=5)
    for row in (record(1), record(3, "open"), record(4, "open")):
        assert get_store(made).insert(row, [row["key"]], 0.0)
    yield made
    made.disconnect()


def port_of(url: str) -> int:
    return int(psycopg.conninfo.conninfo_to_dict(url)["port"] or 0)


@pytest.mark.parametrize("what", ["answer", "request"])
@pytest.mark.parametrize("name", WRITES)
def test_a_call_whose_response_is_lost_returns_the_same(
    distant: PostgresJournal, network: Network, name: str, what: str
) -> None:
    call, expected = WRITES[name]
    network.lose(what)
    assert call(get_store(distant)) == expected
    assert network.lost == 1


@pytest.mark.parametrize("what", ["answer", "request"])
def test_a_row_taken_with_a_lost_response_is_taken_once(
    distant: PostgresJournal, network: Network, url: str, what: str
) -> None:
    network.lose(what)
    get_store(distant).take_due(due_at(100.0), TAKING)
    assert asked(url, "SELECT transaction_id FROM faregate_journal WHERE stamp = 99") == [("txn3",)]


def test_two_lost_responses_are_an_error(distant: PostgresJournal, network: Network) -> None:
    network.lose("answer")
    network.close()
    with pytest.raises(JournalError, match="accepts no connection"):
        distant.claim("proof", HERE)


def test_another_writes_stamp_is_not_mistaken_for_ours(distant: PostgresJournal) -> None:
    store, key = get_store(distant), record(1)["key"]
    assert not store.insert(cast(Record, {**record(1), "stamp": 7}), [key], 0.0)
    assert not store.replace(key, 7, {"stamp": 8}, False)
    assert not store.delete(key, 7)
    assert not store.delete(record(2)["key"], 2)
    assert store.replace(key, 1, {"stamp": 8}, False)


def test_a_server_that_never_responds_is_retried_once(journal: PostgresJournal, url: str) -> None:
    lease = started(journal)
    frozen: int = asked_inside(journal, MY_PID)
    os.kill(frozen, signal.SIGSTOP)
    try:
        assert journal.record_outcome(lease, GOOD)
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert journal.record_outcome(lease, GOOD) is False
    assert asked(url, "SELECT state FROM faregate_journal") == [("ok",)]


def test_ended_sessions_are_replaced(journal: PostgresJournal, url: str) -> None:
    lease = started(journal)
    for _ in range(2):
        asked(url, "SELECT pg_terminate_backend(%s, 5000)", asked_inside(journal, MY_PID))
    assert journal.record_outcome(lease, GOOD)
