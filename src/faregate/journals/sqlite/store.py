"""The rows of one namespace in a SQLite file (`faregate.journals.store.RowStore`)."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from faregate.errors import JournalError
from faregate.journals.sqlite.database import Database
from faregate.journals.store import (
    COLUMNS,
    ENCRYPTED,
    OWNER_RETENTION,
    PURGE_WITH_INSERT,
    Due,
    KeyUsage,
    Record,
    TransactionTaken,
)

T = TypeVar("T")

APART = 64 * 1024
"""A larger result is stored in a table of its own: SQLite rewrites a whole row for any change in it."""

_ALL = ", ".join(COLUMNS)
_LARGE = "SELECT result FROM large WHERE namespace = journal.namespace AND key = journal.key"
_WHOLE = _ALL.replace("result", f"CASE result WHEN x'' THEN coalesce(({_LARGE}), result) ELSE result END")
_PLAIN = ", ".join("NULL" if name in ENCRYPTED else name for name in COLUMNS)
_MINE = "FROM journal WHERE namespace = ?"
_FIND = f"SELECT {_WHOLE} {_MINE} AND key = ?"
_FIND_TRANSACTION = f"SELECT {_WHOLE} {_MINE} AND transaction_id = ?"
_STAMP = f"SELECT stamp {_MINE} AND key = ?"
_INSERT = f"INSERT INTO journal (namespace, {_ALL}) VALUES (?{', ?' * len(COLUMNS)})"  # noqa: S608
_OWNER_LIVES = "EXISTS (SELECT 1 FROM owner WHERE id = journal.owner AND until > :now)"
_LONGEST_DUE = (
    "FROM journal WHERE namespace = :namespace AND expires_at IS NULL AND state <> 'stuck' "
    f"AND due_at <= :now AND (lease_until <= :now OR touched_at <= :silent_since AND NOT {_OWNER_LIVES}) "
    "AND (seller = :seller OR max(due_at, lease_until) <= :foreign_since) ORDER BY lease_until LIMIT 1"
)
_DUE = f"SELECT {_WHOLE} {_LONGEST_DUE}"
_IS_DUE = f"SELECT 1 {_LONGEST_DUE}"
_OWED = f"SELECT {_PLAIN} {_MINE} AND expires_at IS NULL ORDER BY since LIMIT ?"
_INSERT_LARGE = "INSERT INTO large VALUES (?, ?, ?)"
_DELETE = f"DELETE {_MINE} AND key = ? AND stamp = ?"
_PURGE = f"DELETE FROM journal WHERE rowid IN (SELECT rowid {_MINE} AND expires_at <= ? LIMIT ?)"  # noqa: S608
_NEXT_KEY = "SELECT min(key_id) FROM journal WHERE namespace = :namespace"
_KEYS = (
    f"WITH RECURSIVE one(id) AS ({_NEXT_KEY} UNION ALL "  # noqa: S608
    f"SELECT ({_NEXT_KEY} AND key_id > id) FROM one WHERE id IS NOT NULL) "
    "SELECT id FROM one WHERE id IS NOT NULL"
)
_USAGE = f"SELECT key_id, count(*), sum(expires_at IS NULL), max(expires_at) {_MINE} GROUP BY key_id"
_NAMESPACES = "SELECT namespace, count(*) FROM journal WHERE expires_at IS NULL GROUP BY namespace"
_MOVE = "UPDATE OR IGNORE journal SET namespace = :here WHERE namespace = :there"
_MOVE_LARGE = (
    "UPDATE large SET namespace = :here WHERE namespace = :there AND NOT EXISTS "
    "(SELECT 1 FROM journal WHERE namespace = :there AND key = large.key)"
)
_RENEW = "INSERT INTO owner VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET until = excluded.until"
_MEASURE = f"SELECT count(*), coalesce(sum(size), 0) {_MINE}"


class SqliteStore:
    """A write that need not outlive a power cut goes to the disk with the next one that must."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    # Reading

    def find(self, keys: Sequence[bytes]) -> Record | None:
        def find(connection: sqlite3.Connection) -> Record | None:
            for key in keys:
                if (row := connection.execute(_FIND, (self._namespace, key)).fetchone()) is not None:
                    return _record(row)
            return None

        return self._database.read(find)

    def find_transaction(self, transaction_id: str) -> Record | None:
        rows = self._read(_FIND_TRANSACTION, transaction_id)
        return _record(rows[0]) if rows else None

    def list_owed(self, limit: int) -> list[Record]:
        return [_record(row) for row in self._read(_OWED, limit)]

    def measure(self) -> tuple[int, int]:
        [measured] = self._read(_MEASURE)
        return cast(tuple[int, int], measured)

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._fetch(query, (self._namespace, *values))

    def _fetch(self, query: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._database.read(lambda connection: connection.execute(query, values).fetchall())

    # Writing

    def insert(self, record: Record, candidate_keys: Sequence[bytes], now: float) -> bool:
        def insert(connection: sqlite3.Connection) -> bool:
            for candidate in candidate_keys:
                if (stamp := self._stamp(connection, candidate)) is not None:
                    return stamp == record["stamp"]
            connection.execute(_PURGE, (self._namespace, now, PURGE_WITH_INSERT))
            connection.execute(_INSERT, (self._namespace, *record.values()))
            return True

        return self._write(insert)

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        def replace(connection: sqlite3.Connection) -> bool:
            done = self._change(connection, key, stamp, changes)
            return done or self._stamp(connection, key) == changes["stamp"]

        return self._write(replace, durable)

    def delete(self, key: bytes, stamp: int) -> bool:
        return self._forget(_DELETE, key, stamp) == 1

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        values = {**due._asdict(), "namespace": self._namespace}

        def take(connection: sqlite3.Connection) -> Record | None:
            row = connection.execute(_DUE, values).fetchone()
            if row is None:
                return None
            record = _record(row)
            self._change(connection, record["key"], record["stamp"], changes)
            return cast(Record, {**record, **changes})

        # A look first: a sweep that finds nothing holds up no writer.
        return self._write(take) if self._fetch(_IS_DUE, values) else None

    def renew(self, owner: str, until: float, now: float) -> None:
        def renew(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM owner WHERE until <= ?", (now - OWNER_RETENTION,))
            connection.execute(_RENEW, (owner, until))

        self._write(renew)

    def owner_until(self, owner: str) -> float:
        rows = self._fetch("SELECT until FROM owner WHERE id = ?", (owner,))
        return cast(float, rows[0][0]) if rows else 0.0

    # For operators

    def key_ids(self) -> set[str]:
        return {key for [key] in self._fetch(_KEYS, {"namespace": self._namespace})}

    def usage_of_keys(self) -> list[KeyUsage]:
        return [KeyUsage(*row) for row in self._read(_USAGE)]

    def namespaces(self) -> dict[str, int]:
        return {str(namespace): int(number) for namespace, number in self._fetch(_NAMESPACES, ())}

    def move(self, namespace: str) -> int:
        def move(connection: sqlite3.Connection) -> int:
            values = {"here": self._namespace, "there": namespace}
            moved = connection.execute(_MOVE, values).rowcount
            connection.execute(_MOVE_LARGE, values)
            return moved

        return self._write(move, durable=True)

    def purge(self, now: float, limit: int) -> int:
        return self._forget(_PURGE, now, limit)

    def disconnect(self) -> None:
        self._database.disconnect()

    def _stamp(self, connection: sqlite3.Connection, key: bytes) -> int | None:
        found = connection.execute(_STAMP, (self._namespace, key)).fetchone()
        return None if found is None else cast(int, found[0])

    def _change(
        self, connection: sqlite3.Connection, key: bytes, stamp: int, changes: Mapping[str, Any]
    ) -> bool:
        result = changes.get("result") or b""
        if large := len(result) > APART:
            changes = {**changes, "result": b""}
        values = (*changes.values(), self._namespace, key, stamp)
        changed = connection.execute(_update(tuple(changes)), values).rowcount == 1
        if changed and large:
            connection.execute(_INSERT_LARGE, (self._namespace, key, result))
        return changed

    def _forget(self, statement: str, *values: Any) -> int:
        mine = (self._namespace, *values)
        return self._write(lambda connection: connection.execute(statement, mine).rowcount)

    def _write(self, act: Callable[[sqlite3.Connection], T], durable: bool = False) -> T:
        try:
            return self._database.write(act, durable)
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise TransactionTaken from None
            raise JournalError(f"the journal refused an impossible row: {error}") from error


@cache
def _update(columns: tuple[str, ...]) -> str:
    names = ", ".join(f"{name} = ?" for name in columns)
    return f"UPDATE journal SET {names} WHERE namespace = ? AND key = ? AND stamp = ?"  # noqa: S608


def _record(row: Sequence[Any]) -> Record:
    record = cast(Record, dict(zip(COLUMNS, row, strict=True)))
    record["delivered"] = bool(record["delivered"])
    return record
