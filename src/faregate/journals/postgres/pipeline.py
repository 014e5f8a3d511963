"""Many statements in one round trip, with the functions of libpq.

psycopg's own pipelines poll the socket with each statement, and take more processor time (decision 9).
"""

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import TupleRow

from faregate.journals.postgres import errors
from faregate.journals.postgres.connection import Connection
from faregate.journals.writer import Task


class Query(NamedTuple):
    """A statement, with its parameters as libpq takes them."""

    sql: str
    """With %s for each parameter."""
    values: list[bytes | None]
    formats: list[int]

    def extend(self, other: "Query") -> "Query":
        """Add parameters at the end."""
        return Query(self.sql, self.values + other.values, self.formats + other.formats)


class _Compiled(NamedTuple):
    name: bytes
    """Says what the statement is: should two processes share a session, none runs another's by its name."""
    sql: bytes


def encode(sql: str, *values: Any) -> Query:
    """Texts and bytes are sent as they are, with any byte; numbers and booleans as Python writes them."""
    encoded: list[bytes | None] = []
    formats: list[int] = []
    for value in values:
        is_text = isinstance(value, str)
        is_raw = is_text or value is None or isinstance(value, bytes)
        encoded.append(value.encode() if is_text else value if is_raw else repr(value).encode())
        formats.append(Format.BINARY if is_raw else Format.TEXT)
    return Query(sql, encoded, formats)


def run_transaction(connection: Connection, queries: Sequence[Query]) -> list[PGresult]:
    """Send all, then read all. The statements between two syncs are one transaction.

    Returns the result of each. One of them may be an error: then nothing was done. Raises `psycopg.Error` if
    the connection was lost, or the commit failed.
    """
    pgconn, prepared = connection.pgconn, connection.prepared
    new = [] if prepared is None else list({query.sql for query in queries} - prepared)
    try:
        pgconn.enter_pipeline_mode()
        _send_prepare(pgconn, new)
        _send_queries(pgconn, queries, prepared is not None)
        results = connection.wait(_read_results(pgconn, 2 if new else 1))
        pgconn.exit_pipeline_mode()
    except BaseException:
        connection.close()  # what was not read would be taken for the results of the next ones
        raise
    # Check the results of preparing, and what follows the last query: the commit itself can fail.
    for result in (*results[: len(new)], *results[len(new) + len(queries) :]):
        if (error := get_error(result)) is not None:
            raise error
    if prepared is not None:
        prepared.update(new)
    return results[len(new) :]


def get_error(result: PGresult) -> psycopg.Error | None:
    return error_from_result(result) if result.status == ExecStatus.FATAL_ERROR else None


def parse_rows(result: PGresult) -> list[tuple[Any, ...]]:
    transformer = Transformer()
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


def _send_prepare(pgconn: PGconn, statements: Sequence[str]) -> None:
    """In a transaction of its own: what is prepared then stays, even if the statements are rolled back."""
    for sql in statements:
        pgconn.send_prepare(*_compile(sql))
    if statements:
        pgconn.pipeline_sync()


def _send_queries(pgconn: PGconn, queries: Sequence[Query], are_prepared: bool) -> None:
    for sql, values, formats in queries:
        name, numbered = _compile(sql)
        if are_prepared:
            pgconn.send_query_prepared(name, values, formats, Format.BINARY)
        else:
            pgconn.send_query_params(numbered, values, None, formats, Format.BINARY)
    pgconn.pipeline_sync()


def _read_results(pgconn: PGconn, syncs: int) -> PQGen[list[PGresult]]:
    yield from generators.send(pgconn)
    results: list[PGresult] = []
    while syncs:
        fetched = yield from generators.fetch_many(pgconn)
        if not fetched:
            raise psycopg.OperationalError("the connection ended before all results came")
        if fetched[0].status == ExecStatus.PIPELINE_SYNC:
            syncs -= 1
        else:
            results += fetched
    return results


@cache
def _compile(sql: str) -> _Compiled:
    first, *rest = sql.split("%s")
    numbered = first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    return _Compiled(f"faregate_{sha256(sql.encode()).hexdigest()[:32]}".encode(), numbered.encode())


class PostgresStatement(NamedTuple):
    """One operation. `parse` makes its answer of the result."""

    query: Query
    parse: Callable[[PGresult], Any]
    durable: bool | None = None
    """None if it reads."""
    check: tuple[str, Sequence[Any], int] | None = None
    """A query, and write_settings many rows it finds if a write that now changes nothing was done before."""
    inserted_at: float | None = None
    """None if it inserts no row."""
    release: Query | None = None
    """A statement to run before, which ends what another row holds and this one wants, if it may."""

    def was_done(self, connection: Connection) -> bool:
        if self.check is None:
            return False
        query, values, rows = self.check
        return execute(connection, query, *values).rowcount == rows


class Failure(NamedTuple):
    """A batch was rolled back because of the operation at this position."""

    position: int
    cause: psycopg.Error


def perform(
    batch: Sequence[Task[PostgresStatement]],
    write_settings: Sequence[str],
    connection: Connection,
    is_retry: bool,
) -> Failure | None:
    """Perform all or none. Raises `psycopg.Error` if the connection was lost, or the commit failed."""
    settings = encode("", *write_settings)
    works = [task.work for task in batch]
    queries = [work.query if work.durable is None else work.query.extend(settings) for work in works]
    results = run_transaction(connection, queries)
    for position, result in enumerate(results):
        if (error := get_error(result)) is not None:
            if errors.is_lost(error, connection):
                raise error
            return Failure(position, error)
    for task, result in zip(batch, results, strict=True):
        task.result = task.work.parse(result)
        # The first try may have been committed although its answer was lost. The repeated write then changes
        # nothing, and its stamp is in the row.
        if is_retry and task.result is False:
            task.result = task.work.was_done(connection)
    return None


def execute(connection: Connection, statement: str, *values: Any) -> psycopg.Cursor[TupleRow]:
    return connection.execute(_as_bytes(statement), values, binary=True)


@cache
def _as_bytes(statement: str) -> bytes:
    """The same object for the same statement, as psycopg finds what it knows of it by its hash."""
    return statement.encode()
