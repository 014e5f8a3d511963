"""Statements, and many of them in one round trip and one transaction."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import TupleRow

from faregate.journals.postgres import errors
from faregate.journals.postgres.connection import Connection
from faregate.journals.tasks import Task


class Statement(NamedTuple):
    """One operation. `parse` makes its result of the cursor."""

    sql: str
    values: Sequence[Any]
    parse: Callable[[psycopg.Cursor[TupleRow]], Any]
    durable: bool | None = None
    """None if it reads."""
    check: tuple[str, Sequence[Any], int] | None = None
    """A query, and how many rows it finds if a write that now changes nothing was done before."""

    def was_done(self, connection: Connection) -> bool:
        if self.check is None:
            return False
        query, values, rows = self.check
        return execute(connection, query, *values).rowcount == rows


class Failure(NamedTuple):
    """Nothing of a batch was done, because of the operation at this position."""

    position: int
    cause: psycopg.Error


def perform(
    batch: Sequence[Task[Statement]], how: Sequence[str], connection: Connection, is_retry: bool
) -> Failure | None:
    """Send all, then read all. What is between two syncs of a pipeline is one transaction.

    Raises `psycopg.Error` if the connection was lost, or the commit failed.
    """
    cursors: list[psycopg.Cursor[TupleRow]] = []
    try:
        with connection.pipeline() if len(batch) > 1 else nullcontext():
            for task in batch:
                sql, values, _, durable, _ = task.work
                cursors.append(execute(connection, sql, *values, *(() if durable is None else how)))
    except psycopg.Error as error:
        position = sum(cursor.pgresult is not None for cursor in cursors)
        if errors.is_lost(error, connection) or position == len(batch):
            raise
        return Failure(position, error)
    for task, cursor in zip(batch, cursors, strict=True):
        task.result = task.work.parse(cursor)
        if is_retry and task.result is False:
            task.result = task.work.was_done(connection)
    return None


def execute(connection: Connection, statement: str, *values: Any) -> psycopg.Cursor[TupleRow]:
    return connection.execute(_encode(statement), values, binary=True)


@cache
def _encode(statement: str) -> bytes:
    """The same object for the same statement, as psycopg finds what it knows of it by its hash."""
    return statement.encode()
