"""The rows of one namespace in a SQLite file (`faregate.journals.shelf.Shelf`)."""

import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from faregate.errors import JournalError
from faregate.journals.shelf import COLUMNS, Record, TransactionTaken
from faregate.journals.sqlite.file import SqliteFile

PURGE = 8
"""Expired rows forgotten with each new one: more than come in, and few enough not to be noticed."""

_ALL = ", ".join(COLUMNS)
_MINE = "FROM journal WHERE namespace = ?"
_FIND = f"SELECT {_ALL} {_MINE} AND key = ?"
_INSERT = f"INSERT INTO journal (namespace, {_ALL}) VALUES (?{', ?' * len(COLUMNS)})"  # noqa: S608
_FIND_TRANSACTION = f"SELECT {_ALL} {_MINE} AND transaction_id = ?"
_DUE = (
    f"SELECT {_ALL} {_MINE} AND expires_at IS NULL AND state <> 'stuck' AND lease_until <= ? AND due_at <= ? "
    "ORDER BY lease_until LIMIT 1"
)
_OWED = f"SELECT {_ALL} {_MINE} AND expires_at IS NULL ORDER BY since LIMIT ?"
_DELETE = f"DELETE {_MINE} AND key = ? AND stamp = ?"
_PURGE = f"DELETE FROM journal WHERE rowid IN (SELECT rowid {_MINE} AND expires_at <= ? LIMIT ?)"  # noqa: S608
_MEASURE = f"SELECT count(*), coalesce(sum(size), 0) {_MINE}"


class SqliteShelf:
    """Each write is a transaction of its own, on the disk when the call returns."""

    def __init__(self, file: SqliteFile, namespace: str) -> None:
        self._file = file
        self._namespace = namespace

    def find(self, keys: Sequence[bytes]) -> Record | None:
        with self._file.reading() as connection:
            return self._first(connection, keys)

    def _first(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> Record | None:
        for key in keys:
            if (row := connection.execute(_FIND, (self._namespace, key)).fetchone()) is not None:
                return _record(row)
        return None

    def find_transaction(self, transaction_id: str) -> Record | None:
        with self._file.reading() as connection:
            row = connection.execute(_FIND_TRANSACTION, (self._namespace, transaction_id)).fetchone()
        return None if row is None else _record(row)

    def insert(self, record: Record, rivals: Sequence[bytes], now: float) -> bool:
        with self._checked() as connection:
            if self._first(connection, rivals) is not None:
                return False
            connection.execute(_PURGE, (self._namespace, now, PURGE))
            connection.execute(_INSERT, (self._namespace, *record.values()))
            return True

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        columns = ", ".join(f"{name} = ?" for name in changes)
        change = f"UPDATE journal SET {columns} WHERE namespace = ? AND key = ? AND stamp = ?"  # noqa: S608
        with self._checked() as connection:
            done = connection.execute(change, (*changes.values(), self._namespace, key, stamp))
            return done.rowcount == 1

    @contextmanager
    def _checked(self) -> Generator[sqlite3.Connection]:
        """A write that the file's own rules may refuse."""
        try:
            with self._file.writing() as connection:
                yield connection
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise TransactionTaken from None
            raise JournalError(f"the journal refused an impossible row: {error}") from error

    def delete(self, key: bytes, stamp: int) -> bool:
        with self._file.writing() as connection:
            return connection.execute(_DELETE, (self._namespace, key, stamp)).rowcount == 1

    def take_due(self, now: float, changes: Mapping[str, Any]) -> Record | None:
        columns = ", ".join(f"{name} = ?" for name in changes)
        take = f"UPDATE journal SET {columns} WHERE namespace = ? AND key = ?"  # noqa: S608
        with self._file.writing() as connection:
            row = connection.execute(_DUE, (self._namespace, now, now)).fetchone()
            if row is None:
                return None
            record = _record(row)
            connection.execute(take, (*changes.values(), self._namespace, record["key"]))
        return cast(Record, {**record, **changes})

    def owed(self, limit: int) -> list[Record]:
        with self._file.reading() as connection:
            return [_record(row) for row in connection.execute(_OWED, (self._namespace, limit))]

    def purge(self, now: float, limit: int) -> int:
        with self._file.writing() as connection:
            return connection.execute(_PURGE, (self._namespace, now, limit)).rowcount

    def measure(self) -> tuple[int, int]:
        with self._file.reading() as connection:
            return cast(tuple[int, int], connection.execute(_MEASURE, (self._namespace,)).fetchone())

    def disconnect(self) -> None:
        self._file.disconnect()


def _record(row: Sequence[Any]) -> Record:
    record = cast(Record, dict(zip(COLUMNS, row, strict=True)))
    record["delivered"] = bool(record["delivered"])
    return record
