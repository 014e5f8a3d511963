"""A database of a test's own: SQLite in a file, or a schema of the PostgreSQL that all tests share."""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psycopg

from faregate.service.database.upgrade import upgrade
from tests.servers.shared import shared

DATABASES: Final = ("sqlite", "postgres")
SQLITE_FILE: Final = "service.db"
START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


class MovedClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.moment = START

    def __call__(self) -> datetime:
        return self.moment

    def move(self, seconds: float) -> datetime:
        self.moment += timedelta(seconds=seconds)
        return self.moment


@contextmanager
def empty_database(kind: str, folder: Path) -> Generator[str]:
    """The URL of a database without tables."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / SQLITE_FILE}"
        return
    server, schema = shared("postgres"), f"test_{secrets.token_hex(8)}"
    _execute(server, f"CREATE SCHEMA {schema}")
    try:
        yield f"{server}?options=-csearch_path%3D{schema}"
    finally:
        _execute(server, f"DROP SCHEMA {schema} CASCADE")


@contextmanager
def new_database(kind: str, folder: Path) -> Generator[str]:
    """The URL of a database with all tables."""
    with empty_database(kind, folder) as url:
        if kind == "sqlite":
            (folder / SQLITE_FILE).write_bytes(_build_sqlite_file())
        else:
            upgrade(url)
        yield url


@cache
def _build_sqlite_file() -> bytes:
    """What migrations make of no file. They take 50 ms."""
    with TemporaryDirectory() as folder:
        upgrade(f"sqlite:///{folder}/{SQLITE_FILE}")
        return (Path(folder) / SQLITE_FILE).read_bytes()


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())
