"""The rows of one namespace in PostgreSQL (`faregate.journals.store.RowStore`).

Each write is one statement and one round trip. It sets synchronous_commit and lock_timeout for itself
(`_HOW`): behind a pooler, settings of a session may be another process's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast, get_args, get_type_hints

import psycopg
from psycopg.rows import TupleRow

from faregate.journals.postgres import errors
from faregate.journals.postgres.connection import Connection
from faregate.journals.postgres.pool import Pool
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
ONE_ROW_PER_TRANSACTION = "faregate_journal_one_row_per_transaction"

_ALL = ", ".join(COLUMNS)
_WITHOUT_RESULT = ", ".join("NULL::bytea" if name == "result" else name for name in COLUMNS)
_PLAIN = ", ".join("NULL" if name in ENCRYPTED else name for name in COLUMNS)
_TYPES = {bytes: "bytea", int: "bigint", str: "text", float: "float8", bool: "boolean"}
_VALUES = ", ".join(
    f"%s::{_TYPES[(get_args(kind) or (kind,))[0]]}" for kind in get_type_hints(Record).values()
)
_MINE = "FROM faregate_journal WHERE namespace = %s"
_HOW = "set_config('synchronous_commit', %s, true) <> '' AND set_config('lock_timeout', %s, true) <> ''"
_FIND = f"SELECT {_WITHOUT_RESULT} {_MINE} AND key = ANY(%s) ORDER BY array_position(%s, key) LIMIT 1"
_FIND_RESULT = f"SELECT result {_MINE} AND key = %s"
_FIND_TRANSACTION = f"SELECT {_WITHOUT_RESULT} {_MINE} AND transaction_id = %s"
_OWED = f"SELECT {_PLAIN} {_MINE} AND expires_at IS NULL ORDER BY since LIMIT %s"
_TAKEN = f"SELECT {_WITHOUT_RESULT} {_MINE} AND expires_at IS NULL AND stamp = %s"
_TIME = "SELECT extract(epoch FROM clock_timestamp())::float8"
_MEASURE = f"SELECT count(*), coalesce(sum(size), 0)::bigint {_MINE}"
_KEY = f"SELECT {_MINE} AND key = %s"
_HAS_STAMP = f"{_KEY} AND stamp = %s"
_EXPIRED = f"SELECT key {_MINE} AND expires_at <= %s LIMIT %s FOR UPDATE SKIP LOCKED"
_PURGE = f"DELETE {_MINE} AND key = ANY(ARRAY({_EXPIRED}))"
_INSERT = (
    f"WITH forgotten AS ({_PURGE}) INSERT INTO faregate_journal (namespace, {_ALL}) SELECT %s, {_VALUES} "
    f"WHERE NOT EXISTS (SELECT {_MINE} AND key = ANY(%s)) AND {_HOW} ON CONFLICT (namespace, key) DO NOTHING"
)
_DELETE = f"DELETE {_MINE} AND key = %s AND stamp = %s AND {_HOW}"
_OWNER_LIVES = (
    "EXISTS (SELECT 1 FROM faregate_journal_owner WHERE id = faregate_journal.owner AND until > %s)"
)
_DUE = (
    f"SELECT key {_MINE} AND expires_at IS NULL AND state <> 'stuck' AND due_at <= %s "
    f"AND (lease_until <= %s OR touched_at <= %s AND NOT {_OWNER_LIVES}) "
    "AND (seller = %s OR greatest(due_at, lease_until) <= %s) "
    "ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED"
)
_NEXT_KEY = f"SELECT min(key_id) {_MINE}"
_KEYS = (
    f"WITH RECURSIVE one(id) AS (({_NEXT_KEY}) UNION ALL "  # noqa: S608
    f"SELECT ({_NEXT_KEY} AND key_id > one.id) FROM one WHERE id IS NOT NULL) "
    "SELECT id FROM one WHERE id IS NOT NULL"
)
_USAGE = (
    "SELECT key_id, count(*), count(*) FILTER (WHERE expires_at IS NULL), max(expires_at) "
    f"{_MINE} GROUP BY key_id"
)
_NAMESPACES = "SELECT namespace, count(*) FROM faregate_journal WHERE expires_at IS NULL GROUP BY namespace"
_MOVE = (
    "UPDATE faregate_journal AS moved SET namespace = %s WHERE namespace = %s "  # noqa: S608
    "AND NOT EXISTS (SELECT 1 FROM faregate_journal AS other WHERE other.namespace = %s "
    f"AND (other.key = moved.key OR other.transaction_id = moved.transaction_id)) AND {_HOW}"
)
_RENEW = (
    "WITH dead AS (DELETE FROM faregate_journal_owner WHERE until <= %s) "  # noqa: S608
    f"INSERT INTO faregate_journal_owner SELECT %s::text, %s::float8 WHERE {_HOW} "
    "ON CONFLICT (id) DO UPDATE SET until = excluded.until"
)


class PostgresStore:
    """A write that is not `durable` is on the disk within a second: PostgreSQL flushes its WAL that often."""

    def __init__(self, pool: Pool, namespace: str) -> None:
        self._pool = pool
        self._namespace = namespace

    # Reading

    def find(self, keys: Sequence[bytes]) -> Record | None:
        return self._find_one(_FIND, list(keys), list(keys))

    def find_transaction(self, transaction_id: str) -> Record | None:
        return self._find_one(_FIND_TRANSACTION, transaction_id)

    def find_result(self, key: bytes) -> bytes | None:
        rows = self._read(_FIND_RESULT, key)
        return rows[0][0] if rows else None

    def list_owed(self, limit: int) -> list[Record]:
        return [_record(row) for row in self._read(_OWED, limit)]

    def measure(self) -> tuple[int, int]:
        [measured] = self._read(_MEASURE)
        return cast(tuple[int, int], measured)

    def get_server_time(self) -> float:
        """The server's clock: seconds since 1970."""
        [[seconds]] = self._fetch(_TIME)
        return float(seconds)

    def _find_one(self, query: str, *values: Any) -> Record | None:
        rows = self._read(query, *values)
        return _record(rows[0]) if rows else None

    def _read(self, query: str, *values: Any) -> list[TupleRow]:
        return self._fetch(query, self._namespace, *values)

    def _fetch(self, query: str, *values: Any) -> list[TupleRow]:
        return self._run(lambda connection, _: _execute(connection, query, *values).fetchall())

    # Writing

    def insert(self, record: Record, candidate_keys: Sequence[bytes], now: float) -> bool:
        mine = self._namespace
        values = (mine, mine, now, PURGE_WITH_INSERT, mine, *record.values(), mine, list(candidate_keys))
        return self._write(_INSERT, values) == 1 or self._has_stamp(record["key"], record["stamp"])

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        change = f"{_update(changes)} AND key = %s AND stamp = %s AND {_HOW}"
        values = (*changes.values(), self._namespace, key, stamp)
        return self._write(change, values, durable) == 1 or self._has_stamp(key, changes["stamp"])

    def _has_stamp(self, key: bytes, stamp: int) -> bool:
        """Whether this very write was done before, and its response lost."""
        return len(self._read(_HAS_STAMP, key, stamp)) == 1

    def delete(self, key: bytes, stamp: int) -> bool:
        def delete_row(connection: Connection, is_retry: bool) -> bool:
            values = (self._namespace, key, stamp, *self._how(False))
            if _execute(connection, _DELETE, *values).rowcount == 1:
                return True
            return is_retry and _execute(connection, _KEY, self._namespace, key).rowcount == 0

        return self._run(delete_row)

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        """SKIP LOCKED passes over rows that others are taking at this moment."""
        mine = self._namespace
        take = f"{_update(changes)} AND key = ({_DUE}) AND {_HOW} RETURNING {_WITHOUT_RESULT}"
        now, silent_since, seller, foreign_since = due
        which = (mine, now, now, silent_since, now, seller, foreign_since)
        values = (*changes.values(), mine, *which, *self._how(False))

        def take_row(connection: Connection, is_retry: bool) -> TupleRow | None:
            before = is_retry and _execute(connection, _TAKEN, mine, changes["stamp"]).fetchone()
            return before or _execute(connection, take, *values).fetchone()

        row = self._run(take_row)
        return None if row is None else _record(row)

    def purge(self, now: float, limit: int) -> int:
        mine = self._namespace
        return self._write(f"{_PURGE} AND {_HOW}", (mine, mine, now, limit))

    def renew(self, owner: str, until: float, now: float) -> None:
        self._write(_RENEW, (now - OWNER_RETENTION, owner, until))

    def owner_until(self, owner: str) -> float:
        rows = self._fetch("SELECT until FROM faregate_journal_owner WHERE id = %s", owner)
        return float(rows[0][0]) if rows else 0.0

    # For operators

    def key_ids(self) -> set[str]:
        return {key for [key] in self._fetch(_KEYS, self._namespace, self._namespace)}

    def usage_of_keys(self) -> list[KeyUsage]:
        return [KeyUsage(*row) for row in self._read(_USAGE)]

    def namespaces(self) -> dict[str, int]:
        return {str(namespace): int(number) for namespace, number in self._fetch(_NAMESPACES)}

    def move(self, namespace: str) -> int:
        return self._write(_MOVE, (self._namespace, namespace, self._namespace), durable=True)

    def disconnect(self) -> None:
        self._pool.disconnect()

    def _write(self, statement: str, values: Sequence[Any], durable: bool = False) -> int:
        how = self._how(durable)
        return self._run(lambda connection, _: _execute(connection, statement, *values, *how).rowcount)

    def _how(self, durable: bool) -> tuple[str, str]:
        return "on" if durable else "off", self._pool.lock_timeout

    def _run(self, query: Callable[[Connection, bool], T]) -> T:
        try:
            return self._pool.run(query)
        except psycopg.IntegrityError as error:
            if error.diag.constraint_name == ONE_ROW_PER_TRANSACTION:
                raise TransactionTaken from None
            raise errors.impossible(error) from error


def _execute(connection: Connection, statement: str, *values: Any) -> psycopg.Cursor[TupleRow]:
    return connection.execute(statement.encode(), values, binary=True)


def _update(changes: Mapping[str, Any]) -> str:
    columns = ", ".join(f"{name} = %s" for name in changes)
    return f"UPDATE faregate_journal SET {columns} WHERE namespace = %s"  # noqa: S608


def _record(row: TupleRow) -> Record:
    return cast(Record, dict(zip(COLUMNS, row, strict=True)))
