"""Connections to the file: one that writes, for the thread of the writer, and others that read.

A SQLite connection must not be carried over a fork. POSIX locks are not inherited, so the child would act on
locks that it does not have; even its close could remove the log that the parent is writing. So the connection
is closed before a fork, and parent and child each open their own afterwards.
"""

import os
import random
import sqlite3
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from faregate.errors import JournalError
from faregate.journals.sqlite import errors, schema

T = TypeVar("T")

_RETRY_SECONDS = 0.0005, 0.0015
"""About as long as one write takes; random, so that processes that poll in step do not keep colliding."""


class WriteConnection:
    """A connection for one thread at a time, opened on first use.

    It waits up to `timeout` seconds for other processes.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._finalizer: weakref.finalize[..., WriteConnection] | None = None
        self._pid = 0
        self._is_synchronous = True
        self._in_doubt = False

    def get(self) -> sqlite3.Connection:
        """Raises `JournalError`, `sqlite3.Error`."""
        if self._connection is None:
            return self._open()
        if self._pid != os.getpid():
            raise errors.used_after_fork(self.path)
        return self._connection

    def _open(self) -> sqlite3.Connection:
        self._connection = connection = open_connection(self.path, self._timeout)
        self._finalizer = weakref.finalize(self, connection.close)
        self._pid = os.getpid()
        self._is_synchronous = True
        if self._in_doubt:
            _restart_log(connection, self.path)
            self._in_doubt = False
        # SQLite's own busy handler sleeps for up to 0.1 s between tries, longest for the thread that has
        # waited longest, so under contention a waiter may starve. `retry_while_busy` waits instead.
        connection.execute("PRAGMA busy_timeout = 0")
        return connection

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a write transaction; wait for other processes to end theirs.

        IMMEDIATE takes the write lock at once. A deferred transaction that reads first and writes later fails
        with SQLITE_BUSY_SNAPSHOT when another process wrote in between, however long it waits.
        """
        retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"), self._timeout)

    def set_synchronous(self, connection: sqlite3.Connection, durable: bool) -> None:
        """Choose whether commits are forced to the disk. One that is takes all earlier ones along."""
        if self._is_synchronous is not durable:
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._is_synchronous = durable

    def close(self, in_doubt: bool = False) -> None:
        """Close the connection. Pass `in_doubt` when the disk failed to sync.

        After a failed fsync the kernel may mark the pages clean, and the next fsync succeeds without them.
        Nothing in that log is trusted: the next connection moves it into the file and begins a new one.
        """
        self._in_doubt = self._in_doubt or in_doubt
        if self._finalizer is not None:
            self._finalizer()
        self._connection = self._finalizer = None

    def abandon(self) -> None:
        """Leave an open connection to the parent process: `get` refuses to use it, and nothing closes it."""
        if self._finalizer is not None:
            self._finalizer.detach()


def open_connection(path: Path, timeout: float) -> sqlite3.Connection:
    """Open the file, create our tables if it is empty, and turn on the WAL and fsync at each commit.

    Raises `JournalError`, `sqlite3.Error`.
    """
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("BEGIN")  # one snapshot: another process may be creating the tables
        exists = schema.exists(connection, path)
        connection.execute("COMMIT")
        _use_wal(connection, path, timeout)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves data in the drive's cache
        if not exists:
            connection.execute("BEGIN IMMEDIATE")
            schema.create(connection, path)
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, path: Path, timeout: float) -> None:
    """Readers then do not wait for writers. Retried: SQLite does not apply its busy timeout here."""
    [mode] = retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone(), timeout)
    if mode != "wal":
        raise JournalError(f"the journal {path} must be on a disk where SQLite can use its WAL")


def _restart_log(connection: sqlite3.Connection, path: Path) -> None:
    """Move the log into the file and begin a new one. Raises `JournalError`."""
    [busy, *_] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise errors.busy(path)


def retry_while_busy(call: Callable[[], T], timeout: float) -> T:
    """Repeat `call` for up to `timeout` seconds while another process has the file locked."""
    end = time.monotonic() + timeout
    while True:
        try:
            return call()
        except sqlite3.OperationalError as error:
            if not errors.is_busy(error) or time.monotonic() > end:
                raise
        time.sleep(random.uniform(*_RETRY_SECONDS))  # noqa: S311
