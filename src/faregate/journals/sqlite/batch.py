"""The work of the writer's thread in one transaction: reads, changes, and writes of rows.

The `sqlite3` module gives the interpreter's lock away several times per statement. Under load each of them
costs a switch to the thread of an event loop and back, so writes of the same form are one statement.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from faregate.journals.sqlite import errors
from faregate.journals.writer import Task

_MAY_JOIN = sqlite3.sqlite_version_info >= (3, 33)
"""Since then there is UPDATE FROM, and a statement may have 32,766 values."""
_MAX_ROWS = 256
"""A row has some thirty values. A batch may have more rows: an event loop passes all of a turn at once."""
_IS_WRITTEN = "SELECT 1 FROM journal WHERE namespace = ? AND key = ? AND stamp = ?"


class BatchPart(Protocol):
    """A part of a transaction. When it raises, nothing of it remains.

    `durable`: forced to the disk. `needs_transaction`: it is not committed as a whole by itself.
    """

    @property
    def durable(self) -> bool: ...

    @property
    def needs_transaction(self) -> bool: ...

    def run(self, connection: sqlite3.Connection) -> Any: ...


class RowWrite(NamedTuple):
    """Inserts or updates one row. Gives whether it did.

    `make_sql` gives the statement for so many rows. It is one object for all writes of the same form. Rows of
    it may be all NULL, and then change nothing. `written` is namespace, key and stamp of the row thereafter.
    `release` is a statement, with its values, that ends what another row holds and this one wants, if it may.
    """

    make_sql: Callable[[int], str]
    values: Sequence[Any]
    written: tuple[str, bytes, int]
    durable: bool = False
    needs_transaction: bool = False
    release: tuple[str, Sequence[Any]] | None = None

    def run(self, connection: sqlite3.Connection) -> bool:
        if self.release is None:
            return self.write(connection)
        try:
            return self.write(connection)
        except sqlite3.IntegrityError:
            # Usually no other row holds it, so this is looked for only now.
            return bool(Change(self._release_and_write, self.durable).run(connection))

    def write(self, connection: sqlite3.Connection) -> bool:
        """Write the row, and release nothing."""
        return connection.execute(self.make_sql(1), self.values).rowcount == 1

    def _release_and_write(self, connection: sqlite3.Connection) -> bool:
        if self.release is not None:
            connection.execute(*self.release)
        return self.write(connection)


class Deletion(NamedTuple):
    """Deletes one row. Gives whether it did."""

    sql: str
    values: Sequence[Any]
    durable: bool = False
    needs_transaction: bool = False

    def run(self, connection: sqlite3.Connection) -> bool:
        return connection.execute(self.sql, self.values).rowcount == 1


class FirstMatch(NamedTuple):
    """Gives what the first of these values finds, or None if none of them finds a row."""

    sql: str
    values: Sequence[Sequence[Any]]
    parse: Callable[[list[Any]], Any]
    durable: bool = False
    needs_transaction: bool = False

    def run(self, connection: sqlite3.Connection) -> Any:
        matches = (connection.execute(self.sql, values).fetchall() for values in self.values)
        return next((self.parse(rows) for rows in matches if rows), None)


class Change(NamedTuple):
    """Several statements in a savepoint: all of them, or none."""

    function: Callable[[sqlite3.Connection], Any]
    durable: bool = True
    needs_transaction: bool = True

    def run(self, connection: sqlite3.Connection) -> Any:
        connection.execute("SAVEPOINT one")
        try:
            return self.function(connection)
        except Exception as error:
            # An error of the file may have rolled back the transaction already, and the savepoint with it.
            if not errors.concerns_all(error):
                connection.execute("ROLLBACK TO one")
            raise
        finally:
            if connection.in_transaction:
                connection.execute("RELEASE one")


def run_batch(batch: Sequence[Task[BatchPart]], connection: sqlite3.Connection) -> None:
    """Run all of a transaction. Their callers wait at the same time, so the order is free."""
    by_form: defaultdict[Callable[[int], str], list[Task[BatchPart]]] = defaultdict(list)
    for task in batch:
        if _MAY_JOIN and isinstance(task.work, RowWrite):
            by_form[task.work.make_sql].append(task)
        else:
            run_one(task, connection)
    for make_sql, tasks in by_form.items():
        for start in range(0, len(tasks), _MAX_ROWS):
            _write_rows(make_sql, tasks[start : start + _MAX_ROWS], connection)


def run_one(task: Task[BatchPart], connection: sqlite3.Connection) -> None:
    try:
        task.result = task.work.run(connection)
    except Exception as error:
        if errors.concerns_all(error):
            raise
        task.error = errors.to_row_error(error)


def _write_rows(
    make_sql: Callable[[int], str], tasks: Sequence[Task[Any]], connection: sqlite3.Connection
) -> None:
    """Write many rows with one statement. Those that it does not write get their answers one by one."""
    if len(tasks) == 1:
        run_one(tasks[0], connection)
        return
    values = [value for task in tasks for value in task.work.values]
    # Few sizes, for few statements to prepare and keep.
    size = 1 << (len(tasks) - 1).bit_length()
    values += [None] * (len(tasks[0].work.values) * (size - len(tasks)))
    for task in tasks:
        # Before the statement for all of them, which one row of theirs would refuse.
        if task.work.release is not None:
            connection.execute(*task.work.release)
    try:
        has_all = connection.execute(make_sql(size), values).rowcount == len(tasks)
    except Exception as error:
        if errors.concerns_all(error):
            raise
        has_all = False  # one row was refused, so the statement wrote none of them
    for task in tasks:
        if has_all or connection.execute(_IS_WRITTEN, task.work.written).fetchone():
            task.result = True
        else:
            run_one(task, connection)
