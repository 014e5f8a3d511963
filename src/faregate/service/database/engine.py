"""Connections to the database: a bounded pool, autocommit reads, short write transactions."""

import os
import random
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import URL, Connection, Dialect, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, IntegrityError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool

from faregate.errors import ConfigurationError, FaregateError, JournalError
from faregate.journals.sqlite.batch import Change
from faregate.journals.sqlite.database import SqliteDatabase, get_turn
from faregate.rules.store import StoreUnavailable
from faregate.service.database.statements import (
    Compiled,
    PostgresStatements,
    Row,
    SqliteStatements,
    Statement,
    Values,
    execute_on_sqlite,
    is_pooled,
)
from faregate.service.database.types import covers

T = TypeVar("T")
_FORMS: Final = "postgresql://user:password@host:5432/database or sqlite:///service.db"
_SYNCED: Final = "PRAGMA synchronous = FULL"
"""Each commit is on the disk when it is done."""
_UNSYNCED: Final = "PRAGMA synchronous = NORMAL"
"""It is there when a later commit is that is synced, or the log is moved into the file."""
_SQLITE_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",  # readers do not wait for writers
    _SYNCED,
    "PRAGMA fullfsync = ON",  # macOS: fsync alone leaves data in the drive's cache
)
_WRITES: Final = "faregate_writes"
"""The option of connections that begin a transaction."""
_STATEMENTS: Final = "faregate_statements"
"""What executes statements of sales on a connection."""
_FILE: Final = "faregate_file"
"""Which file of the disk a connection to SQLite has opened."""
_OF_OTHERS: Final = 4
"""Connections of a pool of which statements of sales keep none."""
_BUSY: Final = (5, 261, 517)  # SQLITE_BUSY, and while the log is recovered, or a snapshot is old
_RETRY_SECONDS: Final = 0.0005, 0.0015
"""About as long as a write takes; random, so that processes that poll in step do not keep colliding."""


class DatabaseError(FaregateError, StoreUnavailable):
    """The database could not be read or written. Nothing may be assumed written."""


class LostConnection(DatabaseError):
    """The connection ended during a statement. What it wrote may be committed or not."""


class _Kept:
    """A connection that is not given back to its pool, with what each statement would ask of the pool."""

    __slots__ = ("connection", "file", "generation", "is_valid", "pooled", "statements")

    def __init__(self, pooled: PoolProxiedConnection, generation: int) -> None:
        self.pooled: Final = pooled
        self.connection: Final[Any] = pooled.driver_connection
        self.statements: Final[SqliteStatements | PostgresStatements] = pooled.info[_STATEMENTS]
        self.file: Final[tuple[int, int] | None] = pooled.info.get(_FILE)
        self.generation: Final = generation
        """Which of the connections of a `_KeptConnections` it is: those of before a loss are lost, too."""
        self.is_valid = True

    def invalidate(self, error: Exception | None = None) -> None:
        """Close it for good."""
        self.is_valid = False
        self.pooled.invalidate(error)


class _KeptConnections:
    """Up to `most` connections of an engine that statements of sales have to themselves. Thread-safe.

    SQLAlchemy's pool takes as long to give out a connection, and to take it back, as a statement of a sale
    takes. So these are not given back. `file` is that of SQLite: of one that was replaced, as by a backup,
    what is written is lost.
    """

    def __init__(self, engine: Engine, most: int, file: str | None) -> None:
        self._engine, self._most, self._file = engine, most, file
        # Without a lock: `append` and `pop` are one step of the interpreter each.
        self._idle: list[_Kept] = []
        self._generation = 0

    def take(self) -> _Kept:
        """Return a connection for one statement. Raises what the engine raises."""
        try:
            kept = self._idle.pop()
        except IndexError:
            pass
        else:
            if self._file is None or kept.file == _identify_file(self._file):
                return kept
            kept.invalidate()
            kept.pooled.close()
        # Read before it is opened: a loss meanwhile may be its own.
        generation = self._generation
        return _Kept(self._engine.raw_connection(), generation)

    def give_back(self, taken: _Kept) -> None:
        if taken.is_valid and taken.generation == self._generation and len(self._idle) < self._most:
            self._idle.append(taken)
        else:
            taken.pooled.close()

    def close_idle(self) -> None:
        """Give back all that are not in use, and later those that are."""
        self._generation += 1
        with suppress(IndexError):
            while True:
                self._idle.pop().pooled.close()


class Database:
    """One database of the service. Thread-safe; after a fork, each process makes its own.

    A connection is held for one step only, and never during a network call to anybody else.
    """

    def __init__(self, url: str, *, pool_size: int = 10, timeout: float = 10.0) -> None:
        """Connect on first use. `timeout` is how long to wait for a connection and for a lock, in seconds.

        Raises `ConfigurationError` if the URL is not one of PostgreSQL or of a SQLite file.
        """
        address = _parse_url(url)
        self.is_sqlite: Final = address.get_backend_name() == "sqlite"
        engine = (
            _create_sqlite(address, pool_size, timeout)
            if self.is_sqlite
            else _create_postgres(address, pool_size, timeout)
        )
        self._timeout = timeout
        self.name: Final = _name_database(address)
        # On both databases a connection commits each statement by itself, unless a transaction was begun.
        self._engine: Final = engine
        # One of a process writes to SQLite at a time, so one connection is enough.
        self._writer: Final = (
            _create_sqlite_writer(address, timeout)
            if self.is_sqlite
            else engine.execution_options(**{_WRITES: True})
        )
        # That of statements of sales: libpq numbers the parameters.
        numbered: Any = type(engine.dialect)
        self._dialect: Final[Dialect] = (
            engine.dialect if self.is_sqlite else numbered(paramstyle="numeric_dollar")
        )
        self.file: Final = os.path.abspath(address.database or "") if self.is_sqlite else None
        # Others need connections, too, some of them two at once.
        self._kept: Final = _KeptConnections(engine, max(0, pool_size - _OF_OTHERS) // 2, self.file)
        self._kept_writer: Final = _KeptConnections(self._writer, 1, self.file)
        # Beside it, so that no sale changes how commits are synced.
        self._unsynced_writer: Final = (
            _create_sqlite_writer(address, timeout, is_synced=False) if self.is_sqlite else engine
        )
        self._kept_unsynced: Final = _KeptConnections(self._unsynced_writer, 1, self.file)
        self._journal: SqliteDatabase | None = None

    @property
    def engine(self) -> Engine:
        """What opens connections."""
        return self._engine

    @property
    def is_absent(self) -> bool:
        """Whether it is a file of SQLite that does not exist; reading would make an empty one."""
        return self.is_sqlite and not os.path.exists(self._engine.url.database or "")

    @contextmanager
    def read(self) -> Generator[Connection]:
        """Open a connection on which each statement is a transaction. Raises `DatabaseError`."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise _describe_failure(error, self.name) from None

    @contextmanager
    def write(self) -> Generator[Connection]:
        """Open a connection in a transaction: committed at the end, rolled back on an exception.

        SQLite has one writer at a time. Raises `DatabaseError`.
        """
        try:
            with self._take_turn():
                if self.is_sqlite:
                    self._kept_writer.close_idle()  # it is the only one
                with self._writer.begin() as connection:
                    yield connection
        except SQLAlchemyError as error:
            raise _describe_failure(error, self.name) from None

    def query(self, statement: Statement, values: Values) -> list[Row]:
        """Execute one statement that reads. Raises `DatabaseError`."""
        compiled = statement.compile(self._dialect)
        if self._journal is not None:
            rows = self._read_with(self._journal, compiled, values)
            if rows is not None:
                return rows
        try:
            return self._execute(compiled, values)
        # One from before a restart of the server. Only reads are repeated: what a write did is unknown.
        except LostConnection:
            return self._execute(compiled, values)

    def change(
        self, statement: Statement, values: Values, then: Statement | None = None, *, durable: bool = True
    ) -> list[Row]:
        """Execute one statement that writes, in a transaction of its own. Raises `DatabaseError`.

        On SQLite, a statement that returned a row can be followed by another one in the same transaction,
        whose columns are added to the row. There, a power cut may undo a change that is not `durable`, unless
        a later one is: whatever was written before that is then on the disk.
        """
        compiled = statement.compile(self._dialect)
        if not self.is_sqlite:
            return self._execute(compiled, values)
        following = None if then is None else then.compile(self._dialect)
        kept = self._kept_writer if durable else self._kept_unsynced
        if self._journal is not None:
            refusal = self._engine.dialect.loaded_dbapi.IntegrityError
            change = _Change(compiled, values, following, durable, self.name, refusal)
            return self._change_with(self._journal, change)
        turn = self._acquire_turn()
        try:
            return self._execute(compiled, values, following, kept)
        finally:
            turn.release()

    def write_with(self, journal: SqliteDatabase) -> None:
        """Let the writer of the journal in the same file of SQLite write what would wait for it."""
        journal.prepare_with(_prepare_shared)
        self._journal = journal

    def _read_with(self, journal: SqliteDatabase, compiled: Compiled, values: Values) -> list[Row] | None:
        """Read on the connection of the journal, whose cache is warm; None while it writes."""
        try:
            return journal.try_read(lambda connection: execute_on_sqlite(connection, compiled, values))
        except JournalError as error:
            raise self._describe_journal(error) from None

    def _change_with(self, journal: SqliteDatabase, change: "_Change") -> list[Row]:
        # A single statement needs no savepoint.
        work = change if change.then is None else Change(change.run, change.durable)
        # On the connection of the journal: what another one writes empties its cache, and its own stays warm.
        try:
            rows: list[Row] = journal.call(work, may_be_interrupted=True)
        except JournalError as error:
            raise self._describe_journal(error) from None
        return rows

    def _describe_journal(self, error: JournalError) -> DatabaseError:
        return DatabaseError(f"{self.name} could not be read or written ({error})")

    @contextmanager
    def _take_turn(self) -> Generator[None]:
        """Wait until no other thread of this process writes to the file of SQLite."""
        if self.file is None:
            yield
            return
        turn = self._acquire_turn()
        try:
            yield
        finally:
            turn.release()

    def _acquire_turn(self) -> threading.Lock:
        turn = get_turn(self.file or "")
        if not turn.acquire(timeout=self._timeout):
            raise _build_busy(self.name)
        return turn

    def _execute(
        self,
        compiled: Compiled,
        values: Values,
        then: Compiled | None = None,
        kept: _KeptConnections | None = None,
    ) -> list[Row]:
        kept = kept or self._kept
        try:
            taken = kept.take()
        # The driver's own error comes from the events that configure a new connection.
        except (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error) as error:
            raise _describe_failure(error, self.name) from None
        connection, statements = taken.connection, taken.statements
        try:
            if then is not None:
                _begin_immediate(self._writer, connection, self._timeout)
                rows = statements.execute(compiled, values)
                for row, more in zip(rows, statements.execute(then, values) if rows else (), strict=False):
                    row.update(more)
                connection.commit()
            elif self.is_sqlite:
                # It commits by itself: BEGIN and COMMIT would take as long again.
                rows = _retry_while_busy(
                    self._writer, lambda: statements.execute(compiled, values), self._timeout
                )
            else:
                rows = statements.execute(compiled, values)
        except self._engine.dialect.loaded_dbapi.Error as error:
            if self._engine.dialect.is_disconnect(error, connection, None):
                taken.invalidate(error)
                self.close_idle()  # the others in the pool are lost as well
                raise LostConnection(f"{self.name} closed the connection") from None
            raise _describe_failure(error, self.name) from None
        finally:
            if then is not None and connection.in_transaction:
                connection.rollback()
            kept.give_back(taken)
        return rows

    @contextmanager
    def write_statement(self) -> Generator[Connection]:
        """Open a connection for one statement that writes. PostgreSQL commits it by itself, in one trip."""
        with self.write() if self.is_sqlite else self.read() as connection:
            yield connection

    def close_idle(self) -> None:
        """Close the idle connections before a fork: a child process must not inherit one."""
        self._kept.close_idle()
        self._kept_writer.close_idle()
        self._kept_unsynced.close_idle()
        self._engine.dispose()
        self._writer.dispose()
        self._unsynced_writer.dispose()

    def close(self) -> None:
        """Close all connections. Those in use are closed when they are returned."""
        self.close_idle()


class _Change(NamedTuple):
    """A statement, and one that follows if it returned a row, as the work of the writer of a journal."""

    compiled: Compiled
    values: Values
    then: Compiled | None
    durable: bool
    database: str
    refusal: type[Exception]
    """The driver's error of a row that breaks a rule of its table."""
    needs_transaction: bool = False

    def run(self, connection: Any) -> list[Row]:
        try:
            rows = execute_on_sqlite(connection, self.compiled, self.values)
            if self.then is None or not rows:
                return rows
            following = execute_on_sqlite(connection, self.then, self.values)
        except self.refusal as error:
            # The writer would take it for that of a row of the journal.
            raise _describe_failure(error, self.database) from None
        for row, more in zip(rows, following, strict=False):
            row.update(more)
        return rows


class Inserts:
    """An INSERT with ON CONFLICT, built once for each dialect: each has it in a class of its own."""

    def __init__(self, table: Table, build: Callable[[Any], Any]) -> None:
        self._statements: Final = {
            "postgresql": build(postgresql.insert(table)),
            "sqlite": build(sqlite.insert(table)),
        }

    def get(self, connection: Connection) -> Any:
        return self._statements[connection.dialect.name]


def _name_database(address: URL) -> str:
    """Name it as it was typed: without the driver, and without the password."""
    return address.set(drivername=address.get_backend_name()).render_as_string(hide_password=True)


def _describe_failure(error: Exception, database: str) -> DatabaseError:
    """Build the error to raise instead of the driver's: which database, and the driver's own first line."""
    if isinstance(error, PoolTimeout):
        return DatabaseError(f"all connections to {database} were in use for too long")
    # Later lines may show the row, whose values may be signatures.
    cause = error.orig if isinstance(error, DBAPIError) else error
    line = str(cause).partition("\n")[0].strip() or type(cause).__name__
    if isinstance(error, IntegrityError):
        return DatabaseError(f"{database} refused an impossible row ({line})")
    return DatabaseError(f"{database} could not be read or written ({line})")


def _build_busy(database: str) -> DatabaseError:
    return DatabaseError(f"another thread or process has been writing to {database} for too long")


def _parse_url(url: str) -> URL:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        # The URL is not repeated: it may hold a password.
        raise ConfigurationError(f"The database must be given as {_FORMS}.") from None
    kind = address.drivername.partition("+")[0]
    if kind in ("postgresql", "postgres"):
        return address.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and address.database not in (None, "", ":memory:"):
        return address.set(drivername="sqlite+pysqlite")
    raise ConfigurationError(f"The database must be given as {_FORMS}.")


def _create_postgres(address: URL, pool_size: int, timeout: float) -> Engine:
    limit = int(timeout * 1000)
    engine = create_engine(
        address,
        isolation_level="AUTOCOMMIT",
        connect_args={
            "connect_timeout": max(2, int(timeout)),
            "application_name": "faregate",
            "client_encoding": "utf8",  # statements of sales are encoded here, not by psycopg
        },
        **_pool_options(pool_size, timeout),
    )

    @event.listens_for(engine, "connect")
    def limit_waits(connection: Any, entry: ConnectionPoolEntry) -> None:
        connection.autocommit = True
        is_behind_pooler = is_pooled(connection)
        if is_behind_pooler:
            connection.prepare_threshold = None  # nor does psycopg prepare what it executes often
        entry.info[_STATEMENTS] = PostgresStatements(
            connection, engine.dialect.loaded_dbapi, is_prepared=not is_behind_pooler
        )
        # A stamp is taken under a lock, so what follows must see what was committed while it was waited for.
        connection.execute(
            "SET default_transaction_isolation = 'read committed'; SET bytea_output = 'hex'; "
            f"SET statement_timeout = {3 * limit}; SET lock_timeout = {limit}; "
            f"SET idle_in_transaction_session_timeout = {3 * limit}"
        )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # In autocommit the driver begins nothing by itself.
        if connection.get_execution_options().get(_WRITES):
            connection.exec_driver_sql("BEGIN")

    return engine


def _create_sqlite(address: URL, pool_size: int, timeout: float) -> Engine:
    engine = create_engine(
        address,
        connect_args={"timeout": timeout, "isolation_level": None},
        **_pool_options(pool_size, timeout),
    )

    file = os.path.abspath(address.database or "")

    @event.listens_for(engine, "do_connect")
    def protect(_dialect: Dialect, _entry: ConnectionPoolEntry, arguments: Any, _options: Any) -> None:
        _make_private(arguments[0])

    @event.listens_for(engine, "connect")
    def configure(connection: Any, entry: ConnectionPoolEntry) -> None:
        entry.info[_STATEMENTS] = SqliteStatements(connection)
        entry.info[_FILE] = _identify_file(file)
        for pragma in _SQLITE_PRAGMAS:
            connection.execute(pragma)
        _prepare_shared(connection)

    @event.listens_for(engine, "checkout")
    def require_same_file(_connection: Any, entry: ConnectionPoolEntry, _proxy: Any) -> None:
        # Of a file that was replaced, as by a backup: what is written to the old one is lost.
        if entry.info[_FILE] != _identify_file(file):
            raise DisconnectionError

    return engine


def _create_sqlite_writer(address: URL, timeout: float, *, is_synced: bool = True) -> Engine:
    """Create the engine of the one connection that writes. Each of its transactions takes its turn first."""
    engine = _create_sqlite(address, 1, timeout)

    @event.listens_for(engine, "connect")
    def wait_for_nothing(connection: Any, _entry: ConnectionPoolEntry) -> None:
        # The turn of another process is waited for by `_retry_while_busy`.
        connection.execute("PRAGMA busy_timeout = 0")
        if not is_synced:
            connection.execute(_UNSYNCED)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        _begin_immediate(engine, connection.connection.driver_connection, timeout)

    return engine


def _prepare_shared(connection: Any) -> None:
    """Prepare a connection for changes: that of a journal, too, has its own settings."""
    connection.execute("PRAGMA foreign_keys = ON")
    connection.create_function("faregate_covers", 5, covers, deterministic=True)


def _make_private(path: str) -> None:
    """Let only this user read the file: it holds signatures of payers. Its log and index have its rights."""
    with suppress(OSError):  # the file of another user, or no folder: SQLite says what it cannot do
        if not os.path.exists(path):
            # Never opened if it is there: closing it would end the locks that SQLite has on it.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        for name in (path, f"{path}-wal", f"{path}-shm"):
            if os.path.exists(name) and os.stat(name).st_mode & 0o077:
                os.chmod(name, 0o600)


def _identify_file(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _begin_immediate(engine: Engine, connection: Any, timeout: float) -> None:
    """Begin a transaction that writes, and wait for its turn.

    A deferred transaction that reads first fails when another process writes before it does.
    """
    _retry_while_busy(engine, lambda: connection.execute("BEGIN IMMEDIATE"), timeout)


def _retry_while_busy(engine: Engine, call: Callable[[], T], timeout: float) -> T:
    """Repeat a call for so long while another process writes.

    SQLite's own way of waiting sleeps for up to 0.1 s between tries, longest for the thread that has waited
    longest, so that one of several processes may starve.
    """
    end = time.monotonic() + timeout
    failure: type[Exception] = engine.dialect.loaded_dbapi.OperationalError
    while True:
        try:
            return call()
        except failure as error:
            if getattr(error, "sqlite_errorcode", None) not in _BUSY:
                raise
            if time.monotonic() > end:
                raise _build_busy(_name_database(engine.url)) from None
        time.sleep(random.uniform(*_RETRY_SECONDS))  # noqa: S311 - no secret


def _pool_options(pool_size: int, timeout: float) -> dict[str, Any]:
    return {
        "poolclass": QueuePool,
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": timeout,
        "pool_pre_ping": False,  # a trip for each use; a read is repeated instead
        "pool_reset_on_return": None,  # the code that begins a transaction ends it
        "hide_parameters": True,  # they may be signatures
    }
