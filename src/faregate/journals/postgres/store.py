"""The rows of one namespace in PostgreSQL (`faregate.journals.store.RowStore`).

Each operation on a row is one statement. Operations that are queued together are sent in one round trip and
committed together (`_execute`). Each write sets synchronous_commit and lock_timeout for its transaction
(`_HOW`): behind a pooler, settings of a session may be another process's.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar, cast, get_args, get_type_hints

import psycopg
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

from faregate.journals.owner_locks import OwnerLocks
from faregate.journals.postgres import errors
from faregate.journals.postgres.connection import Connection
from faregate.journals.postgres.pipeline import (
    Failure,
    PostgresStatement,
    Query,
    encode,
    execute,
    parse_rows,
    perform,
)
from faregate.journals.postgres.pool import Pool
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
from faregate.journals.session_locks import SessionLocks
from faregate.journals.sql import DELIVERED, DROP_RESULT, IS_SETTLED, OTHER_ENCODING, REMEMBERED, UNFETCHED
from faregate.journals.store import (
    COLUMNS,
    ENCRYPTED,
    OWNER_RETENTION,
    PAGE,
    PURGE_SECONDS,
    PURGE_WITH_INSERT,
    Due,
    KeyUsage,
    PurchaseTaken,
    Record,
    TransactionTaken,
)
from faregate.journals.writer import Task, Writer

T = TypeVar("T")
ONE_ROW_PER_TRANSACTION = "faregate_journal_one_row_per_transaction"
ONE_ROW_PER_PURCHASE = "faregate_journal_one_row_per_purchase"
_CONFLICTS = {"23505", "40001", "40P01"}
"""SQLSTATEs of a conflict that may be with another operation of the same batch."""

_ALL = ", ".join(COLUMNS)
_WITHOUT_RESULT = ", ".join("NULL::bytea" if name == "result" else name for name in COLUMNS)
_PLAIN = ", ".join("NULL" if name in ENCRYPTED else name for name in COLUMNS)
_TYPES = {bytes: "bytea", int: "bigint", str: "text", float: "float8", bool: "boolean"}
_VALUES = ", ".join(
    f"%s::{_TYPES[(get_args(kind) or (kind,))[0]]}" for kind in get_type_hints(Record).values()
)
_MINE = "FROM faregate_journal WHERE namespace = %s"
# `set_config` returns the new value, so these conditions hold. Its `true` limits the setting to the
# transaction.
_HOW = "set_config('synchronous_commit', %s, true) <> '' AND set_config('lock_timeout', %s, true) <> ''"
_FIND_RESULT = f"SELECT result {_MINE} AND key = %s"
_FIND_TRANSACTION = f"SELECT {_WITHOUT_RESULT} {_MINE} AND transaction_id = %s"
_FIND_PURCHASE = f"SELECT {_WITHOUT_RESULT} {_MINE} AND purchase = %s"
_FIND_AUTHORIZATION = (
    f"SELECT {_WITHOUT_RESULT} {_MINE} AND authorization_hash <> '' AND authorization_hash = ANY(%s::text[]) "
    f"AND key <> %s AND {OTHER_ENCODING}"
)
_OWED = f"SELECT {_PLAIN} {_MINE} AND expires_at IS NULL ORDER BY since LIMIT %s"
_TAKEN = f"SELECT {_WITHOUT_RESULT} {_MINE} AND expires_at IS NULL AND stamp = %s"
_TIME = "SELECT extract(epoch FROM clock_timestamp())::float8"
_MEASURE = f"SELECT count(*), coalesce(sum(size), 0)::bigint {_MINE}"
_KEY = f"SELECT {_MINE} AND key = %s"
_HAS_STAMP = f"{_KEY} AND stamp = %s"
_UNFETCHED = f"SELECT {_PLAIN} {_MINE} AND {UNFETCHED} AND expires_at <= %s ORDER BY expires_at LIMIT %s"
_NEXT_PAGE = f"SELECT {_WITHOUT_RESULT} {_MINE} AND key > %s ORDER BY key LIMIT {PAGE}"
_LOCK = "LIMIT %s FOR UPDATE SKIP LOCKED"
_EXPIRED = f"SELECT key {_MINE} AND expires_at <= %s AND NOT ({IS_SETTLED}) {_LOCK}"
_PURGE = f"DELETE {_MINE} AND key = ANY(ARRAY({_EXPIRED}))"
_DROPPED = f"SELECT key {_MINE} AND expires_at <= %s AND {DELIVERED} {_LOCK}"
_DROP = (
    f"UPDATE faregate_journal SET {DROP_RESULT} WHERE namespace = %s "  # noqa: S608
    f"AND key = ANY(ARRAY({_DROPPED}))"
)
_REMEMBERED = f"SELECT key {_MINE} AND {REMEMBERED} ORDER BY expires_at {_LOCK}"
_FORGET = f"DELETE {_MINE} AND key = ANY(ARRAY({_REMEMBERED}))"
_END_PURCHASE = (
    "UPDATE faregate_journal SET purchase = NULL, owner = '', stamp = %s "  # noqa: S608
    "WHERE namespace = %s AND purchase = %s AND delivered "
    f"AND owner = (SELECT owner {_MINE} AND key = %s AND stamp = %s) AND {_HOW}"
)
_DELETE = f"DELETE {_MINE} AND key = %s AND stamp = %s AND {_HOW}"
_OWNER_LIVES = (
    "EXISTS (SELECT 1 FROM faregate_journal_owner WHERE id = faregate_journal.owner AND until > %s)"
)
_DUE = (
    f"SELECT key {_MINE} AND expires_at IS NULL AND state <> 'stuck' AND due_at <= %s "
    "AND (lease_until <= %s OR owner = '' OR owner = ANY(%s) "
    f"OR touched_at <= %s AND owner <> ALL(%s) AND NOT {_OWNER_LIVES}) "
    "AND (seller = %s OR greatest(due_at, lease_until) <= %s) "
    "ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED"
)
_OWNERS = f"SELECT DISTINCT owner {_MINE} AND expires_at IS NULL AND state <> 'stuck' AND lease_until > %s"
# A loose index scan: one look-up per key. DISTINCT would read every row.
_NEXT_KEY = f"SELECT min(key_id) {_MINE}"
_KEYS = (
    f"WITH RECURSIVE one(id) AS (({_NEXT_KEY}) UNION ALL "  # noqa: S608
    f"SELECT ({_NEXT_KEY} AND key_id > one.id) FROM one WHERE id IS NOT NULL) "
    "SELECT id FROM one WHERE id IS NOT NULL"
)
_USAGE = (
    "SELECT key_id, count(*), count(*) FILTER (WHERE expires_at IS NULL), "
    f"max(coalesce(forget_at, expires_at)) {_MINE} GROUP BY key_id"
)
_NAMESPACES = "SELECT namespace, count(*) FROM faregate_journal WHERE expires_at IS NULL GROUP BY namespace"
_NEXT_NAMESPACE = "SELECT min(namespace) FROM faregate_journal"
_ALL_NAMESPACES = (
    f"WITH RECURSIVE one(name) AS (({_NEXT_NAMESPACE}) UNION ALL "  # noqa: S608
    f"SELECT ({_NEXT_NAMESPACE} WHERE namespace > one.name) FROM one WHERE name IS NOT NULL) "
    "SELECT name FROM one WHERE name IS NOT NULL"
)
_MOVE = (
    "UPDATE faregate_journal AS moved SET namespace = %s, purchase = NULL WHERE namespace = %s "  # noqa: S608
    "AND NOT EXISTS (SELECT 1 FROM faregate_journal AS other WHERE other.namespace = %s "
    f"AND (other.key = moved.key OR other.transaction_id = moved.transaction_id)) AND {_HOW}"
)
_RENEW = (
    "WITH dead AS (DELETE FROM faregate_journal_owner WHERE until <= %s) "  # noqa: S608
    f"INSERT INTO faregate_journal_owner SELECT %s::text, %s::float8 WHERE {_HOW} "
    "ON CONFLICT (id) DO UPDATE SET until = excluded.until"
)


class PostgresStore(BatchedRows):
    """A write that is not `durable` is on the disk within a second: PostgreSQL flushes its WAL that often."""

    def __init__(self, pool: Pool, namespace: str) -> None:
        self._pool = pool
        self._namespace = namespace
        self._purge_at = 0.0
        self.owner_locks: OwnerLocks | None = SessionLocks(pool.open_session, pool.fetch)
        self.writer: Writer[PostgresStatement] = Writer(
            self._execute, pool.timeout, partial(errors.busy, pool.location)
        )

    @property
    def namespace(self) -> str:
        return self._namespace

    # Operations on one row

    def prepare(self, operation: RowOperation) -> PostgresStatement:
        mine = self._namespace
        match operation:
            case Find(keys):
                return PostgresStatement(encode(_find(len(keys)), mine, *keys, *keys), _parse_record)
            case FindResult(key):
                return PostgresStatement(encode(_FIND_RESULT, mine, key), _parse_result)
            case Insert(record, keys, now):
                query = encode(_insert(len(keys)), mine, *record.values(), mine, *keys)
                check = (_HAS_STAMP, (mine, record["key"], record["stamp"]), 1)
                return PostgresStatement(query, _is_one, False, check, now)
            case Replace(key, stamp, changes, durable):
                query = encode(_replace(tuple(changes)), *changes.values(), mine, key, stamp)
                check = (_HAS_STAMP, (mine, key, changes["stamp"]), 1)
                release = self._build_release(operation)
                return PostgresStatement(query, _is_one, durable, check, release=release)
            case Delete(key, stamp):
                query = encode(_DELETE, mine, key, stamp)
                return PostgresStatement(query, _is_one, False, (_KEY, (mine, key), 0))

    def _execute(self, batch: Sequence[Task[PostgresStatement]]) -> None:
        """Commit the batch in one round trip, and delete some expired rows along.

        An error rolls all of it back. The operation that failed is taken out, and the others are repeated. It
        is tried alone afterwards if its conflict may have been with one of them.
        """
        # The purge has no caller. If it fails, it is taken out like any other task, and not reported.
        rest = [*_prepare_releases(batch), *batch, *self._prepare_purge(batch)]
        alone = list[Task[PostgresStatement]]()
        while rest and (failure := self._try(rest)) is not None:
            task = rest.pop(failure.position)
            if failure.cause.sqlstate in _CONFLICTS and len(batch) > 1:
                alone.append(task)
            else:
                task.error = self._explain(failure.cause)
        for task in alone:
            if (failure := self._try([task])) is not None:
                task.error = self._explain(failure.cause)

    def _prepare_purge(self, batch: Sequence[Task[PostgresStatement]]) -> Iterator[Task[PostgresStatement]]:
        """Make tasks without a caller, if it is time to look for expired rows."""
        times = [task.work.inserted_at for task in batch if task.work.inserted_at is not None]
        now = max(times, default=self._purge_at)
        # The lower bound is for a clock that was set back: without it, nothing would be purged until the old
        # time.
        if not times or self._purge_at - PURGE_SECONDS <= now < self._purge_at:
            return
        limit, mine = len(times) * PURGE_WITH_INSERT, self._namespace
        self._purge_at = now + PURGE_SECONDS

        def parse(result: PGresult) -> None:
            if (result.command_tuples or 0) >= limit:
                self._purge_at = 0.0  # there are more

        for statement in (_DROP, _PURGE):
            query = encode(f"{statement} AND {_HOW}", mine, mine, now, limit)
            yield Task(PostgresStatement(query, parse, durable=False))

    def _build_release(self, operation: Replace) -> Query | None:
        """End the same purchase of a row whose result this process has sent; others decide by themselves."""
        key, stamp, changes, _ = operation
        purchase = changes.get("purchase")
        if not purchase or purchase.startswith(IDENTIFIED):
            return None
        # The new stamp is in no row yet, so two rows may get it.
        mine = self._namespace
        return encode(_END_PURCHASE, changes["stamp"], mine, purchase, mine, key, stamp)

    def _try(self, batch: Sequence[Task[PostgresStatement]]) -> Failure | None:
        how = self._how(any(task.work.durable for task in batch))
        return self._pool.run(partial(perform, batch, how))

    def _explain(self, error: psycopg.Error) -> Exception:
        if not isinstance(error, psycopg.IntegrityError):
            explained: Exception = errors.to_journal_error(error, self._pool.location)
        elif error.diag.constraint_name == ONE_ROW_PER_TRANSACTION:
            return TransactionTaken()
        elif error.diag.constraint_name == ONE_ROW_PER_PURCHASE:
            return PurchaseTaken()
        else:
            explained = errors.impossible(error)
        explained.__cause__ = error
        return explained

    # Reading

    def find_transaction(self, transaction_id: str) -> Record | None:
        rows = self._read(_FIND_TRANSACTION, transaction_id)
        return _record(rows[0]) if rows else None

    def find_purchase(self, purchase: str) -> Record | None:
        rows = self._read(_FIND_PURCHASE, purchase)
        return _record(rows[0]) if rows else None

    def find_authorization(self, hashes: Sequence[str], own: bytes, now: float) -> Record | None:
        rows = self._fetch(_FIND_AUTHORIZATION, self._namespace, list(hashes), own, now)
        return _record(rows[0]) if rows else None

    def list_owed(self, limit: int) -> list[Record]:
        return [_record(row) for row in self._read(_OWED, limit)]

    def list_unfetched(self, until: float, limit: int) -> list[Record]:
        return [_record(row) for row in self._read(_UNFETCHED, until, limit)]

    def iterate(self) -> Iterator[Record]:
        last = b""
        while rows := self._read(_NEXT_PAGE, last):
            records = [_record(row) for row in rows]
            yield from records
            last = records[-1]["key"]

    def measure(self) -> tuple[int, int]:
        [measured] = self._read(_MEASURE)
        return cast(tuple[int, int], measured)

    def get_server_time(self) -> float:
        """The server's clock: seconds since 1970."""
        [[seconds]] = self._fetch(_TIME)
        return float(seconds)

    def _read(self, query: str, *values: Any) -> list[TupleRow]:
        return self._fetch(query, self._namespace, *values)

    def _fetch(self, query: str, *values: Any) -> list[TupleRow]:
        return self._run(lambda connection, _: execute(connection, query, *values).fetchall())

    # Writing

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        """SKIP LOCKED passes over rows that others are taking at this moment."""
        mine = self._namespace
        take = f"{_update(changes)} AND key = ({_DUE}) AND {_HOW} RETURNING {_WITHOUT_RESULT}"
        now, silent_since, seller, foreign_since, dead, living = due
        which = (mine, now, now, list(dead), silent_since, list(living), now, seller, foreign_since)
        values = (*changes.values(), mine, *which, *self._how(False))

        def take_row(connection: Connection, is_retry: bool) -> TupleRow | None:
            # The first try may have leased a row. Find it by its new stamp, instead of leasing another one.
            before = is_retry and execute(connection, _TAKEN, mine, changes["stamp"]).fetchone()
            return before or execute(connection, take, *values).fetchone()

        row = self._run(take_row)
        return None if row is None else _record(row)

    def drop_results(self, now: float, limit: int) -> int:
        return self._change_some(_DROP, now, limit)

    def purge(self, now: float, limit: int) -> int:
        return self._change_some(_PURGE, now, limit)

    def forget_delivered(self, limit: int) -> int:
        return self._change_some(_FORGET, limit)

    def _change_some(self, statement: str, *values: Any) -> int:
        return self._write(f"{statement} AND {_HOW}", (self._namespace, self._namespace, *values))

    def renew(self, owner: str, until: float, now: float) -> None:
        self._write(_RENEW, (now - OWNER_RETENTION, owner, until))

    def owner_until(self, owner: str) -> float:
        rows = self._fetch("SELECT until FROM faregate_journal_owner WHERE id = %s", owner)
        return float(rows[0][0]) if rows else 0.0

    def list_owners(self, now: float) -> list[str]:
        return [str(owner) for [owner] in self._read(_OWNERS, now)]

    # For operators

    def key_ids(self) -> set[str]:
        return {key for [key] in self._fetch(_KEYS, self._namespace, self._namespace)}

    def usage_of_keys(self) -> list[KeyUsage]:
        return [KeyUsage(*row) for row in self._read(_USAGE)]

    def namespaces(self) -> dict[str, int]:
        return {str(namespace): int(number) for namespace, number in self._fetch(_NAMESPACES)}

    def list_namespaces(self) -> list[str]:
        return [str(name) for [name] in self._fetch(_ALL_NAMESPACES)]

    @contextmanager
    def open_namespace(self, namespace: str) -> Generator["PostgresStore"]:
        yield PostgresStore(self._pool, namespace)

    def move(self, namespace: str) -> int:
        return self._write(_MOVE, (self._namespace, namespace, self._namespace), durable=True)

    def disconnect(self) -> None:
        self.writer.stop()
        self._pool.disconnect()

    def _write(self, statement: str, values: Sequence[Any], durable: bool = False) -> int:
        how = self._how(durable)
        return self._run(lambda connection, _: execute(connection, statement, *values, *how).rowcount)

    def _how(self, durable: bool) -> tuple[str, str]:
        return "on" if durable else "off", self._pool.lock_timeout

    def _run(self, query: Callable[[Connection, bool], T]) -> T:
        try:
            return self._pool.run(query)
        except psycopg.IntegrityError as error:
            raise errors.impossible(error) from error


def _prepare_releases(batch: Sequence[Task[PostgresStatement]]) -> Iterator[Task[PostgresStatement]]:
    """Make the tasks, without a caller, that end what the rows of the batch want to begin."""
    for task in batch:
        if task.work.release is not None:
            yield Task(PostgresStatement(task.work.release, _is_one, durable=False))


def _is_one(result: PGresult) -> bool:
    return result.command_tuples == 1


def _parse_record(result: PGresult) -> Record | None:
    return next(map(_record, parse_rows(result)), None)


def _parse_result(result: PGresult) -> bytes | None:
    return result.get_value(0, 0) if result.ntuples else None


@cache
def _find(keys: int) -> str:
    candidates = ", ".join(["%s::bytea"] * keys)
    return (
        f"SELECT {_WITHOUT_RESULT} {_MINE} AND key IN ({candidates}) "
        f"ORDER BY array_position(ARRAY[{candidates}], key) LIMIT 1"
    )


@cache
def _insert(keys: int) -> str:
    candidates = ", ".join(["%s"] * keys)
    return (
        f"INSERT INTO faregate_journal (namespace, {_ALL}) SELECT %s, {_VALUES} "
        f"WHERE NOT EXISTS (SELECT {_MINE} AND key IN ({candidates})) AND {_HOW} "
        "ON CONFLICT (namespace, key) DO NOTHING"
    )


@cache
def _replace(columns: tuple[str, ...]) -> str:
    return f"{_update(columns)} AND key = %s AND stamp = %s AND {_HOW}"


def _update(columns: Iterable[str]) -> str:
    names = ", ".join(f"{name} = %s" for name in columns)
    return f"UPDATE faregate_journal SET {names} WHERE namespace = %s"  # noqa: S608


def _record(row: TupleRow) -> Record:
    return cast(Record, dict(zip(COLUMNS, row, strict=True)))
