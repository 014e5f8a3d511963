"""Operations as statements, and many of them in one round trip and one transaction."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

from faregate.journals.postgres import errors
from faregate.journals.postgres.connection import Connection
from faregate.journals.postgres.pipeline import Query, encode, get_error, run_transaction
from faregate.journals.tasks import Task


class PostgresStatement(NamedTuple):
    """One operation. `parse` makes its answer of the result."""

    query: Query
    parse: Callable[[PGresult], Any]
    durable: bool | None = None
    """None if it reads."""
    check: tuple[str, Sequence[Any], int] | None = None
    """A query, and how many rows it finds if a write that now changes nothing was done before."""
    inserted_at: float | None = None
    """None if it inserts no row."""

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
    batch: Sequence[Task[PostgresStatement]], how: Sequence[str], connection: Connection, is_retry: bool
) -> Failure | None:
    """Perform all or none. Raises `psycopg.Error` if the connection was lost, or the commit failed."""
    settings = encode("", *how)
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
        if is_retry and task.result is False:
            task.result = task.work.was_done(connection)
    return None


def execute(connection: Connection, statement: str, *values: Any) -> psycopg.Cursor[TupleRow]:
    return connection.execute(_encode(statement), values, binary=True)


@cache
def _encode(statement: str) -> bytes:
    """The same object for the same statement, as psycopg finds what it knows of it by its hash."""
    return statement.encode()
