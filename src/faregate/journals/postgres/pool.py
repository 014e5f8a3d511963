"""The connections of one process to one server: a few, opened on demand.

They must not be carried over a fork: two processes would write to one socket, and even to close a connection
sends a message on it. So connections are kept per process id, and a child leaves its parent's alone.
A child would use its parent's connections with `psycopg_pool`, which also starts threads (decision 9).
"""

import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from faregate.errors import ConfigurationError
from faregate.journals.postgres import errors, schema
from faregate.journals.postgres.connection import (
    Connection,
    connect,
    is_pooled,
    set_read_committed,
    warn_if_not_durable,
)

T = TypeVar("T")
Query = Callable[[Connection, bool], T]
"""Takes a connection, and whether it is a retry."""


class Pool:
    """Open nothing until it is used. A call waits up to `timeout` seconds for anything.

    Raises `ConfigurationError`.
    """

    def __init__(self, url: str, timeout: float, connections: int) -> None:
        try:
            self._parameters = conninfo_to_dict(url)
        except psycopg.Error:
            raise errors.invalid_url() from None
        self.location = errors.describe_server(self._parameters)
        if connections < 1:
            raise ConfigurationError("A PostgreSQL journal needs at least one connection.")
        self.timeout = timeout
        # Shorter than our own timeout: the server gives up first, and its error names the lock.
        self.lock_timeout = f"{750 * timeout:.0f}ms"
        self._connections = connections
        self._is_checked = False
        self._may_prepare = True
        self._pools: dict[int, _ProcessPool] = {}
        weakref.finalize(self, _close_own, self._pools)

    def run(self, query: Query[T]) -> T:
        """Run `query`; when its connection is lost, once more on a new one.

        The query may have been executed already, so the second call is marked as a retry. Raises
        `JournalError` for any error of PostgreSQL but `IntegrityError`, which is raised as it is: a
        constraint refused the write.
        """
        with self._acquire_slot() as pool:
            try:
                return self._run(pool, pool.take() or self._open(), query, False)
            except errors.ConnectionLost as lost:
                if getattr(lost.__cause__, "sqlstate", None) in errors.NOT_PREPARED:
                    self._may_prepare = False
                pool.close()  # the idle ones led to the same server
                return self._run(pool, self._open(), query, True)

    def fetch(self, query: str) -> list[TupleRow]:
        """Execute a statement that only reads. Raises `JournalError`."""
        return self.run(lambda connection, _: connection.execute(query.encode()).fetchall())

    def open_session(self) -> "LockSession":
        """Open a connection besides those of the pool. Raises `psycopg.Error`."""
        return LockSession(connect(self._parameters, self.timeout))

    def disconnect(self) -> None:
        self._get_pool().close()

    def _get_pool(self) -> "_ProcessPool":
        return self._pools.get(os.getpid()) or self._pools.setdefault(
            os.getpid(), _ProcessPool(self._connections)
        )

    @contextmanager
    def _acquire_slot(self) -> Generator["_ProcessPool"]:
        pool = self._get_pool()
        if not pool.slots.acquire(timeout=self.timeout):
            raise errors.busy(self.location)
        try:
            yield pool
        finally:
            pool.slots.release()

    def _run(self, pool: "_ProcessPool", connection: Connection, query: Query[T], is_retry: bool) -> T:
        try:
            return query(connection, is_retry)
        except psycopg.IntegrityError:
            raise
        except psycopg.Error as error:
            if errors.is_lost(error, connection):
                raise errors.connection_lost(error, self.location) from error
            raise errors.to_journal_error(error, self.location) from error
        finally:
            pool.give_back(connection)

    def _open(self) -> Connection:
        try:
            connection = connect(self._parameters, self.timeout)
        except psycopg.Error as error:
            raise errors.unreachable(error, self.location) from error
        try:
            self._check(connection)
        except psycopg.Error as error:
            connection.close()
            raise errors.to_journal_error(error, self.location) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: Connection) -> None:
        """Create the tables on first use, but not again: with removed tables open payments were lost."""
        set_read_committed(connection)
        if not self._is_checked:
            warn_if_not_durable(connection, self.location)
        if not schema.exists(connection, self.location):
            if self._is_checked:
                raise errors.table_removed(self.location)
            schema.create(connection, self.location, self.lock_timeout)
        if self._may_prepare and not is_pooled(connection):
            connection.prepared = set()
        self._is_checked = True


class LockSession:
    """A connection that holds the lock of an owner (`faregate.journals.session_locks.Session`)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.backend_pid = connection.pgconn.backend_pid
        self.fileno = connection.fileno
        self.close = connection.close

    def query(self, statement: str) -> list[TupleRow]:
        return self._connection.execute(statement.encode()).fetchall()


class _ProcessPool:
    """The slots of one process, one for each connection it may have, and its idle connections."""

    def __init__(self, slots: int) -> None:
        self.slots = threading.BoundedSemaphore(slots)
        self._idle: list[Connection] = []

    def take(self) -> Connection | None:
        # No lock is needed: `pop` and `append` of a list are atomic.
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def give_back(self, connection: Connection) -> None:
        """Keep the connection, unless it is in a transaction: its next user would go on with that one."""
        if connection.pgconn.transaction_status == TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        while (connection := self.take()) is not None:
            connection.close()


def _close_own(pools: dict[int, _ProcessPool]) -> None:
    # A forked child must not close the connections of its parent.
    if (pool := pools.get(os.getpid())) is not None:
        pool.close()
