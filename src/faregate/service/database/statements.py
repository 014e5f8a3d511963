"""Statements of a sale: built with SQLAlchemy, compiled once, executed by the driver.

A sale makes eight of them. SQLAlchemy takes 0.2 ms of the processor for each, the driver an eighth of that:
so it is left out where sales are many (docs/contributing/decisions/0014-statements-of-sales.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import Dialect, Insert, Integer, LargeBinary, String
from sqlalchemy.types import TypeEngine

from faregate.service.database.types import Amount

Values = Mapping[str, Any]
Row = dict[str, Any]
_Reader = tuple[int, str, Callable[[bytes], Any]]
_TEXT, _BINARY = 0, 1
"""The formats of values in PostgreSQL's protocol."""
_SESSION = "SELECT pg_backend_pid()"


@dataclass(frozen=True, slots=True)
class Compiled:
    """The text of a statement in one dialect, and what its parameters and results are called."""

    sql: str
    parameters: tuple[str, ...]
    """Their names, in the order of their places in the text."""
    amounts: tuple[int, ...]
    """The places of amounts among them."""
    constants: Row
    """The parameters whose values are part of the statement."""
    columns: tuple[tuple[str, Any], ...]
    """The names of the results, each with its type."""
    names: tuple[str, ...]
    amount_names: tuple[str, ...]
    """The names of the results that are amounts."""

    def order(self, values: Values) -> list[Any]:
        """Return the values of the parameters in their order."""
        by_name = {**self.constants, **values}
        return list(map(by_name.__getitem__, self.parameters))


class Statement:
    """A statement with named parameters. Its columns are integers, text, bytes and amounts: no other type.

    `build` is the statement, or what makes it for a dialect of this name.
    """

    def __init__(self, build: Any) -> None:
        self._build: Final = build
        self._compiled: dict[str, Compiled] = {}

    def compile(self, dialect: Dialect) -> Compiled:
        """Compile it for this dialect, once. The dialect numbers its parameters."""
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = self._compile(dialect)
        return compiled

    def _compile(self, dialect: Dialect) -> Compiled:
        statement: Any = self._build(dialect.name) if callable(self._build) else self._build
        # Of an INSERT all columns would be parameters.
        keys: list[str] | None = [] if isinstance(statement, Insert) else None
        text: Any = statement.compile(dialect=dialect, column_keys=keys)
        returned: Any = statement.exported_columns
        columns = tuple((name, column.type) for name, column in returned.items())
        for name, kind in columns:
            if not isinstance(kind, Integer | String | LargeBinary | Amount):
                raise TypeError(f"{name} is of a type that statements of sales do not read: {kind}")
        names = tuple(text.positiontup)
        amounts = [place for place, name in enumerate(names) if isinstance(text.binds[name].type, Amount)]
        column_names = tuple(name for name, _ in columns)
        are_amounts = tuple(name for name, kind in columns if isinstance(kind, Amount))
        return Compiled(
            str(text), names, tuple(amounts), dict(text.params), columns, column_names, are_amounts
        )


class SqliteStatements:
    """One connection of the `sqlite3` module."""

    def __init__(self, connection: Any) -> None:
        # Kept: a new cursor costs as much as a statement.
        self._cursor: Final = connection.cursor()

    def execute(self, compiled: Compiled, values: Values) -> list[Row]:
        """Execute a statement; return its rows. Raises the errors of the driver."""
        return execute_on_sqlite(self._cursor, compiled, values)


def execute_on_sqlite(cursor: Any, compiled: Compiled, values: Values) -> list[Row]:
    """Execute a statement on a cursor, or a connection, of `sqlite3`; return its rows."""
    ordered = compiled.order(values)
    for place in compiled.amounts:
        # sqlite3 refuses integers of more than 64 bits, and columns of amounts are text.
        ordered[place] = None if ordered[place] is None else str(ordered[place])
    rows = cursor.execute(compiled.sql, ordered)
    if not compiled.columns:
        return []
    # What is the same for each row is not looked for again: a row has some fifty columns.
    named = [dict(zip(compiled.names, row, strict=True)) for row in rows]
    for name in compiled.amount_names:
        for row in named:
            row[name] = None if row[name] is None else int(row[name])
    return named


def is_pooled(connection: Any) -> bool:
    """Whether a connection of psycopg is to a pooler, which has given us a process id of its own making."""
    row = connection.execute(_SESSION).fetchone()
    return bool(row != (connection.info.backend_pid,))


class PostgresStatements:
    """One connection of psycopg: statements are prepared once, and executed by one call of libpq.

    Behind a pooler nothing is prepared. One in transaction mode (PgBouncer) gives each statement another
    session, which another process may have given a statement of the same name.

    A cursor of psycopg waits for the server in Python. It releases the interpreter about five times for each
    statement, and other threads take it each time. One call of libpq releases it once: a sale costs the
    service a quarter less of the processor.
    """

    def __init__(self, connection: Any, driver: Any, *, is_prepared: bool) -> None:
        self._libpq: Final = connection.pgconn
        self._driver: Final = driver
        self._is_prepared: Final = is_prepared
        self._prepared: Final = dict[str, tuple[bytes, bytes, list[_Reader]]]()

    def execute(self, compiled: Compiled, values: Values) -> list[Row]:
        """Execute a statement; return its rows. Raises the errors of the driver."""
        name, sql, readers = self._prepared.get(compiled.sql) or self._prepare(compiled)
        ordered = compiled.order(values)
        # libpq takes a value in text format up to its first zero byte. So text goes in binary: the server
        # refuses a zero byte, and nothing is cut.
        formats = [_TEXT if isinstance(value, int) else _BINARY for value in ordered]
        encoded = [_encode(value) for value in ordered]
        if self._is_prepared:
            result = self._check(self._libpq.exec_prepared(name, encoded, formats))
        else:
            result = self._check(self._libpq.exec_params(sql, encoded, param_formats=formats))
        get = result.get_value
        return [
            {
                column: None if (value := get(row, place)) is None else read(value)
                for place, column, read in readers
            }
            for row in range(result.ntuples)
        ]

    def _prepare(self, compiled: Compiled) -> tuple[bytes, bytes, list[_Reader]]:
        sql = compiled.sql.encode()
        # By its text: in a session that is not ours alone, no other statement can have this name.
        name = b"faregate_" + blake2b(sql, digest_size=16).hexdigest().encode()
        if self._is_prepared:
            self._check(self._libpq.prepare(name, sql))
        columns = enumerate(compiled.columns)
        prepared = name, sql, [(place, column, _choose_reader(kind)) for place, (column, kind) in columns]
        self._prepared[compiled.sql] = prepared
        return prepared

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
    # `\x` and hex digits: `bytea_output` is set for each connection.
    return bytes.fromhex(value[2:].decode())
