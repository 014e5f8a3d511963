"""The rows of one namespace in a SQLite file (`faregate.journals.store.RowStore`)."""

import json
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

from faregate.journals.file_locks import FileLocks
from faregate.journals.owner_locks import OwnerLocks
from faregate.journals.row_operations import (
    BatchedRows,
    Delete,
    Find,
    FindResult,
    Insert,
    Replace,
    RowOperation,
)
from faregate.journals.row_rules import IDENTIFIED
from faregate.journals.sql import DELIVERED, DROP_RESULT, IS_SETTLED, OTHER_ENCODING, REMEMBERED, UNFETCHED
from faregate.journals.sqlite.batch import BatchPart, Change, Deletion, FirstMatch, RowWrite
from faregate.journals.sqlite.database import SqliteDatabase
from faregate.journals.store import (
    COLUMNS,
    ENCRYPTED,
    OWNER_RETENTION,
    PAGE,
    PURGE_SECONDS,
    PURGE_WITH_INSERT,
    Due,
    KeyUsage,
    Record,
)

APART = 64 * 1024
"""A larger result is stored in a table of its own: SQLite rewrites a whole row for any change in it."""

_ALL = ", ".join(COLUMNS)
_PART = 1 << 20
_WITHOUT_RESULT = ", ".join("NULL" if name == "result" else name for name in COLUMNS)
_PLAIN = ", ".join("NULL" if name in ENCRYPTED else name for name in COLUMNS)
_MINE = "FROM journal WHERE namespace = ?"
_FIND = f"SELECT {_WITHOUT_RESULT} {_MINE} AND key = ?"
_FIND_RESULT = (
    "SELECT coalesce(large.result, journal.result) FROM journal LEFT JOIN large USING (namespace, key) "
    "WHERE namespace = ? AND key = ? ORDER BY number"
)
_FIND_TRANSACTION = f"SELECT {_WITHOUT_RESULT} {_MINE} AND transaction_id = ?"
_FIND_PURCHASE = f"SELECT {_WITHOUT_RESULT} {_MINE} AND purchase = ?"
_OWNER_LIVES = "EXISTS (SELECT 1 FROM owner WHERE id = journal.owner AND until > :now)"
_DEAD, _LIVING = "(SELECT value FROM json_each(:dead))", "(SELECT value FROM json_each(:living))"
_LONGEST_DUE = (
    "FROM journal WHERE namespace = :namespace AND expires_at IS NULL AND state <> 'stuck' "
    "AND due_at <= :now AND (lease_until <= :now OR owner = '' "
    f"OR owner IN {_DEAD} OR touched_at <= :silent_since AND owner NOT IN {_LIVING} AND NOT {_OWNER_LIVES}) "
    "AND (seller = :seller OR max(due_at, lease_until) <= :foreign_since) ORDER BY lease_until LIMIT 1"
)
_OWNERS = f"SELECT DISTINCT owner {_MINE} AND expires_at IS NULL AND state <> 'stuck' AND lease_until > ?"
_DUE = f"SELECT {_WITHOUT_RESULT} {_LONGEST_DUE}"
_IS_DUE = f"SELECT 1 {_LONGEST_DUE}"
_OWED = f"SELECT {_PLAIN} {_MINE} AND expires_at IS NULL ORDER BY since LIMIT ?"
_INSERT_PART = "INSERT INTO large VALUES (?, ?, ?, ?)"
_END_PURCHASE = (
    "UPDATE journal SET purchase = NULL, owner = '', stamp = ? WHERE namespace = ? AND purchase = ? "  # noqa: S608
    f"AND delivered AND owner = (SELECT owner {_MINE} AND key = ? AND stamp = ?)"
)
_DELETE = f"DELETE {_MINE} AND key = ? AND stamp = ?"
_UNFETCHED = f"SELECT {_PLAIN} {_MINE} AND {UNFETCHED} AND expires_at <= ? ORDER BY expires_at LIMIT ?"
_NEXT_PAGE = f"SELECT {_WITHOUT_RESULT} {_MINE} AND key > ? ORDER BY key LIMIT {PAGE}"
_EXPIRED = f"SELECT rowid {_MINE} AND expires_at <= ? AND NOT ({IS_SETTLED}) LIMIT ?"
_PURGE = f"DELETE FROM journal WHERE rowid IN ({_EXPIRED})"  # noqa: S608
_DROPPED = f"SELECT rowid {_MINE} AND expires_at <= ? AND {DELIVERED} LIMIT ?"
_DROP = f"UPDATE journal SET {DROP_RESULT} WHERE rowid IN ({_DROPPED})"  # noqa: S608
_REMEMBERED = f"SELECT rowid {_MINE} AND expires_at IS NOT NULL AND {REMEMBERED} ORDER BY expires_at LIMIT ?"
_FORGET = f"DELETE FROM journal WHERE rowid IN ({_REMEMBERED})"  # noqa: S608
# A loose index scan: one look-up per key. DISTINCT would read every row.
_NEXT_KEY = "SELECT min(key_id) FROM journal WHERE namespace = :namespace"
_KEYS = (
    f"WITH RECURSIVE one(id) AS ({_NEXT_KEY} UNION ALL "  # noqa: S608
    f"SELECT ({_NEXT_KEY} AND key_id > id) FROM one WHERE id IS NOT NULL) "
    "SELECT id FROM one WHERE id IS NOT NULL"
)
_USAGE = (
    "SELECT key_id, count(*), sum(expires_at IS NULL), max(coalesce(forget_at, expires_at)) "
    f"{_MINE} GROUP BY key_id"
)
_NAMESPACES = "SELECT namespace, count(*) FROM journal WHERE expires_at IS NULL GROUP BY namespace"
_NEXT_NAMESPACE = "SELECT min(namespace) FROM journal"
_ALL_NAMESPACES = (
    f"WITH RECURSIVE one(name) AS ({_NEXT_NAMESPACE} UNION ALL "  # noqa: S608
    f"SELECT ({_NEXT_NAMESPACE} WHERE namespace > name) FROM one WHERE name IS NOT NULL) "
    "SELECT name FROM one WHERE name IS NOT NULL"
)
# IGNORE leaves a row in place if its proof or its transaction is known in both namespaces.
_MOVE = "UPDATE OR IGNORE journal SET namespace = :here, purchase = NULL WHERE namespace = :there"
_MOVE_LARGE = (
    "UPDATE large SET namespace = :here WHERE namespace = :there AND NOT EXISTS "
    "(SELECT 1 FROM journal WHERE namespace = :there AND key = large.key)"
)
_RENEW = "INSERT INTO owner VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET until = excluded.until"
_MEASURE = f"SELECT count(*), coalesce(sum(size), 0) {_MINE}"


class SqliteStore(BatchedRows):
    """A write that need not outlive a power cut goes to the disk with the next one that must."""

    takes_parts = True
    """A large result may be given as `EncryptedParts`."""

    def __init__(self, database: SqliteDatabase, namespace: str) -> None:
        self._database = database
        self._namespace = namespace
        self._purge_at = 0.0
        self.writer = database.writer
        self.owner_locks: OwnerLocks | None = FileLocks(database.path)

    @property
    def syncs_outcomes(self) -> bool:
        """Whether an outcome is on the disk before it is reported."""
        return not self._database.is_shared_with_service

    @property
    def namespace(self) -> str:
        return self._namespace

    def _call(self, operation: RowOperation) -> Any:
        return self._database.call(self.prepare(operation))

    def prepare(self, operation: RowOperation) -> BatchPart:
        mine = self._namespace
        match operation:
            case Find(keys):
                return FirstMatch(_FIND, [(mine, key) for key in keys], _first_record)
            case FindResult(key):
                return FirstMatch(_FIND_RESULT, [(mine, key)], _join)
            case Insert():
                return self._prepare_insert(operation)
            case Replace():
                return self._prepare_replace(operation)
            case Delete(key, stamp):
                return Deletion(_DELETE, (mine, key, stamp))

    def _prepare_insert(self, operation: Insert) -> BatchPart:
        record, keys, now = operation
        others = [key for key in keys if key != record["key"]]
        # `Codec.pack` gives the columns in the order of `COLUMNS`, which the statement relies on.
        values = (self._namespace, *record.values(), *others)
        written = self._namespace, record["key"], record["stamp"]
        insert = RowWrite(_insert(len(others)), values, written)
        # The lower bound is for a clock that was set back: without it, nothing would be purged until the old
        # time.
        if self._purge_at - PURGE_SECONDS <= now < self._purge_at:
            return insert

        def purge_and_insert(connection: sqlite3.Connection) -> bool:
            values = (self._namespace, now, PURGE_WITH_INSERT)
            changed = [connection.execute(sql, values).rowcount for sql in (_DROP, _PURGE)]
            if max(changed) < PURGE_WITH_INSERT:
                self._purge_at = now + PURGE_SECONDS
            return insert.run(connection)

        return Change(purge_and_insert, durable=False)

    def _prepare_replace(self, operation: Replace) -> BatchPart:
        key, stamp, changes, durable = operation
        result = changes.get("result") or b""
        is_large = len(result) > APART
        columns = {**changes, "result": b""} if is_large else changes
        values = (*columns.values(), self._namespace, key, stamp)
        written = self._namespace, key, changes["stamp"]
        update = RowWrite(
            _update(tuple(columns)), values, written, durable, release=self._build_release(operation)
        )
        if not is_large:
            return update

        def replace(connection: sqlite3.Connection) -> bool:
            changed = update.run(connection)
            if changed:
                parts = ((self._namespace, key, *part) for part in enumerate(_split(result)))
                connection.executemany(_INSERT_PART, parts)
            return changed

        return Change(replace, durable)

    def _build_release(self, operation: Replace) -> tuple[str, Sequence[Any]] | None:
        """End the same purchase of a row whose result this process has sent; others decide by themselves."""
        key, stamp, changes, _ = operation
        purchase = changes.get("purchase")
        if not purchase or purchase.startswith(IDENTIFIED):
            return None
        # The new stamp is in no row yet, so two rows may get it.
        mine = self._namespace
        return _END_PURCHASE, (changes["stamp"], mine, purchase, mine, key, stamp)

    # Reading

    def find_transaction(self, transaction_id: str) -> Record | None:
        rows = self._read(_FIND_TRANSACTION, transaction_id)
        return _record(rows[0]) if rows else None

    def find_purchase(self, purchase: str) -> Record | None:
        rows = self._read(_FIND_PURCHASE, purchase)
        return _record(rows[0]) if rows else None

    def find_authorization(self, hashes: Sequence[str], own: bytes, now: float) -> Record | None:
        rows = self._read(_find_authorization(len(hashes)), *hashes, own, now)
        return _record(rows[0]) if rows else None

    def list_owed(self, limit: int) -> list[Record]:
        return [_record(row) for row in self._read(_OWED, limit)]

    def list_unfetched(self, until: float, limit: int) -> list[Record]:
        return [_record(row) for row in self._read(_UNFETCHED, until, limit)]

    def iterate(self) -> Iterator[Record]:
        last: bytes = b""
        while rows := self._read(_NEXT_PAGE, last):
            records = [_record(row) for row in rows]
            yield from records
            last = records[-1]["key"]

    def measure(self) -> tuple[int, int]:
        [measured] = self._read(_MEASURE)
        return cast(tuple[int, int], measured)

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._fetch(query, (self._namespace, *values))

    def _fetch(self, query: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._database.read(lambda connection: connection.execute(query, values).fetchall())

    # Writing

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        owners = {"dead": json.dumps(due.dead), "living": json.dumps(due.living)}
        values = {**due._asdict(), **owners, "namespace": self._namespace}

        def take(connection: sqlite3.Connection) -> Record | None:
            row = connection.execute(_DUE, values).fetchone()
            if row is None:
                return None
            record = _record(row)
            self._prepare_replace(Replace(record["key"], record["stamp"], changes, False)).run(connection)
            return cast(Record, {**record, **changes})

        # A look first: a sweep that finds nothing holds up no writer.
        return self._database.write(take, durable=False) if self._fetch(_IS_DUE, values) else None

    def renew(self, owner: str, until: float, now: float) -> None:
        def renew(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM owner WHERE until <= ?", (now - OWNER_RETENTION,))
            connection.execute(_RENEW, (owner, until))

        self._database.write(renew, durable=False)

    def owner_until(self, owner: str) -> float:
        rows = self._fetch("SELECT until FROM owner WHERE id = ?", (owner,))
        return cast(float, rows[0][0]) if rows else 0.0

    def list_owners(self, now: float) -> list[str]:
        return [owner for [owner] in self._read(_OWNERS, now)]

    # For operators

    def key_ids(self) -> set[str]:
        return {key for [key] in self._fetch(_KEYS, {"namespace": self._namespace})}

    def usage_of_keys(self) -> list[KeyUsage]:
        return [KeyUsage(*row) for row in self._read(_USAGE)]

    def namespaces(self) -> dict[str, int]:
        return {str(namespace): int(number) for namespace, number in self._fetch(_NAMESPACES, ())}

    def list_namespaces(self) -> list[str]:
        return [name for [name] in self._fetch(_ALL_NAMESPACES, ())]

    @contextmanager
    def open_namespace(self, namespace: str) -> Generator["SqliteStore"]:
        yield SqliteStore(self._database, namespace)

    def move(self, namespace: str) -> int:
        def move(connection: sqlite3.Connection) -> int:
            values = {"here": self._namespace, "there": namespace}
            moved = connection.execute(_MOVE, values).rowcount
            # Move the parts after the rows: the parts of a row that stayed must stay too.
            connection.execute(_MOVE_LARGE, values)
            return moved

        return self._database.write(move)

    def drop_results(self, now: float, limit: int) -> int:
        return self._change(_DROP, now, limit)

    def purge(self, now: float, limit: int) -> int:
        return self._change(_PURGE, now, limit)

    def forget_delivered(self, limit: int) -> int:
        return self._change(_FORGET, limit)

    def _change(self, statement: str, *values: Any) -> int:
        return self._database.write(
            lambda connection: connection.execute(statement, (self._namespace, *values)).rowcount,
            durable=False,
        )

    def disconnect(self) -> None:
        self._database.disconnect()


@cache
def _find_authorization(hashes: int) -> str:
    candidates = ", ".join("?" * hashes)
    # The index has no empty ones. The condition shows SQLite that the query wants none.
    which = f"AND authorization_hash <> '' AND authorization_hash IN ({candidates}) AND key <> ?"
    return f"SELECT {_WITHOUT_RESULT} {_MINE} {which} AND {OTHER_ENCODING.replace('%s', '?')}"


def _first_record(rows: Sequence[Sequence[Any]]) -> Record:
    return _record(rows[0])


def _join(rows: Sequence[Sequence[bytes | None]]) -> bytes | None:
    """Join the parts of a result; None if there is none."""
    parts = [part for [part] in rows if part is not None]
    return b"".join(parts) if parts else None


def _split(result: bytes | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(result, bytes):
        return (result[start : start + _PART] for start in range(0, len(result), _PART))
    return result


@cache
def _insert(others: int) -> Callable[[int], str]:
    """Make the statements that insert rows whose key, and so many `others`, no row has.

    A row's `others` are not looked for among the rows inserted with it. Those are of the same journal, which
    derives the keys of all its new rows from its newest journal key.
    """
    width = 1 + len(COLUMNS)
    columns = ", ".join(f"new.column{width + number}" for number in range(1, others + 1))
    unless = f" AND NOT EXISTS (SELECT 1 FROM journal WHERE namespace = new.column1 AND key IN ({columns}))"  # noqa: S608

    @cache
    def make_sql(rows: int) -> str:
        return (
            f"INSERT INTO journal (namespace, {_ALL}) SELECT {_columns(width)} "  # noqa: S608
            f"FROM {_values(rows, width + others)} AS new WHERE new.column1 IS NOT NULL"
            f"{unless if others else ''} ON CONFLICT (namespace, key) DO NOTHING"
        )

    return make_sql


@cache
def _update(columns: tuple[str, ...]) -> Callable[[int], str]:
    """Make the statements that change these columns of rows that still have their stamp."""
    many = len(columns)
    names = ", ".join(f"{name} = ?" for name in columns)
    one = f"UPDATE journal SET {names} WHERE namespace = ? AND key = ? AND stamp = ?"  # noqa: S608
    new = ", ".join(f"{name} = new.column{number}" for number, name in enumerate(columns, 1))

    @cache
    def make_sql(rows: int) -> str:
        if rows == 1:
            return one
        return (
            f"UPDATE journal SET {new} FROM {_values(rows, many + 3)} AS new "  # noqa: S608
            f"WHERE journal.namespace = new.column{many + 1} AND journal.key = new.column{many + 2} "
            f"AND journal.stamp = new.column{many + 3}"
        )

    return make_sql


def _columns(width: int) -> str:
    return ", ".join(f"new.column{number}" for number in range(1, width + 1))


def _values(rows: int, width: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"(VALUES {', '.join([row] * rows)})"


def _record(row: Sequence[Any]) -> Record:
    record = cast(Record, dict(zip(COLUMNS, row, strict=True)))
    record["delivered"] = bool(record["delivered"])
    return record
