"""PostgreSQL for the tests of its journal: the server that all share, with a schema of the test's own."""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from faregate.journals.postgres import PostgresJournal
from faregate.journals.postgres.store import PostgresStore
from tests.journals.stores import KEY, Clock
from tests.servers.shared import shared


@contextmanager
def own_schema() -> Generator[str]:
    """Its URL. Further settings of the server can be put behind it: see `with_setting`."""
    url, name = shared("postgres"), f"test_{secrets.token_hex(8)}"
    asked(url, f"CREATE SCHEMA {name}")
    try:
        yield f"{url}?options=-csearch_path%3D{name}"
    finally:
        asked(url, f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def url() -> Generator[str]:
    with own_schema() as url:
        yield url


@pytest.fixture
def journal(url: str) -> Generator[PostgresJournal]:
    made = postgres(url, timeout=0.4)
    yield made
    made.disconnect()


def with_setting(url: str, setting: str) -> str:
    return f"{url}%20-c{setting.replace('=', '%3D').replace(' ', '%5C%20')}"


def postgres(url: str, **options: Any) -> PostgresJournal:
    return PostgresJournal(url, **{"keys": [KEY], "namespace": "test", "clock": Clock(), **options})


def get_store(journal: PostgresJournal) -> PostgresStore:
    assert isinstance(journal._store, PostgresStore)
    return journal._store


def asked(url: str, statement: str, *values: Any) -> list[Any]:
    """What somebody else is answered, on a connection of their own."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def asked_inside(journal: PostgresJournal, statement: str) -> Any:
    """The one value that the journal's own connection is answered."""
    rows: list[Any] = get_store(journal)._pool.run(lambda it, _: it.execute(statement.encode()).fetchall())
    [[value]] = rows
    return value


def stamp_of(journal: PostgresJournal, transaction_id: str) -> int:
    record = get_store(journal).find_transaction(transaction_id)
    assert record is not None
    return record["stamp"]
