"""Statements of a sale on one connection: values in, rows out, with as little work as the driver allows."""

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Integer, LargeBinary
from sqlalchemy.types import TypeEngine

from faregate.selfhosted.database.statements import Compiled, Row, Values
from faregate.selfhosted.database.types import Amount

_Reader = tuple[int, str, Callable[[bytes], Any]]
_TEXT, _BINARY = 0, 1
"""The formats of values in PostgreSQL's protocol."""


class SqliteStatements:
    """One connection of the `sqlite3` module."""

    def __init__(self, connection: Any) -> None:
        # Kept: a new cursor costs as much as a statement.
        self._cursor: Final = connection.cursor()

    def execute(self, compiled: Compiled, values: Values) -> list[Row]:
        """Execute a statement; return its rows. Raises the errors of the driver."""
        given = compiled.order(values)
        for place in compiled.amounts:
            given[place] = None if given[place] is None else str(given[place])
        self._cursor.execute(compiled.sql, given)
        return [_name_columns(compiled, row) for row in self._cursor] if compiled.columns else []


def _name_columns(compiled: Compiled, row: tuple[Any, ...]) -> Row:
    return {
        name: int(value) if value is not None and isinstance(kind, Amount) else value
        for (name, kind), value in zip(compiled.columns, row, strict=True)
    }


class PostgresStatements:
    """One connection of psycopg: statements are prepared once, and executed by one call of libpq.

    A cursor of psycopg waits for the server in Python. It releases the interpreter about five times for each
    statement, and other threads take it each time. One call of libpq releases it once: a sale costs the
    service a fifth less of the processor.
    """

    def __init__(self, connection: Any, driver: Any) -> None:
        self._libpq: Final = connection.pgconn
        self._driver: Final = driver
        self._prepared: Final = dict[str, tuple[bytes, list[_Reader]]]()

    def execute(self, compiled: Compiled, values: Values) -> list[Row]:
        """Execute a statement; return its rows. Raises the errors of the driver."""
        name, readers = self._prepared.get(compiled.sql) or self._prepare(compiled)
        given = compiled.order(values)
        formats = [_TEXT if isinstance(value, int) else _BINARY for value in given]
        result = self._check(self._libpq.exec_prepared(name, [_encode(value) for value in given], formats))
        get = result.get_value
        return [
            {
                column: None if (value := get(row, place)) is None else read(value)
                for place, column, read in readers
            }
            for row in range(result.ntuples)
        ]

    def _prepare(self, compiled: Compiled) -> tuple[bytes, list[_Reader]]:
        name = b"faregate_%d" % len(self._prepared)
        self._check(self._libpq.prepare(name, compiled.sql.encode()))
        columns = enumerate(compiled.columns)
        made = name, [(place, column, _choose_reader(kind)) for place, (column, kind) in columns]
        self._prepared[compiled.sql] = made
        return made

    def _check(self, result: Any) -> Any:
        states = self._driver.pq.ExecStatus
        if result.status not in (states.TUPLES_OK, states.COMMAND_OK):
            raise self._driver.errors.error_from_result(result)
        return result


def _encode(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


def _choose_reader(kind: TypeEngine[Any]) -> Callable[[bytes], Any]:
    """Choose what reads values of this type in PostgreSQL's text format."""
    if isinstance(kind, Integer | Amount):
        return int
    return _read_bytes if isinstance(kind, LargeBinary) else bytes.decode


def _read_bytes(value: bytes) -> bytes:
    return bytes.fromhex(value[2:].decode())
