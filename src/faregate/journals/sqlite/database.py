"""One SQLite file as this process uses it: one thread writes for all that write at the same time, in batches.

SQLite lets one write at a time into a file, so threads with connections of their own would only wait inside
it, unfairly, and each would pay for a sync of its own. Rare reads use a connection of
their own, and never wait; `try_read` uses the connection that writes, while it is free.

A SQLite connection must not be carried over a fork. POSIX locks are not inherited, so the child would act on
locks that it does not have; even its close could remove the log that the parent is writing. So the connection
is closed before a fork, and parent and child each open their own afterwards.
"""

import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from faregate.errors import ConfigurationError, JournalError
from faregate.journals.sqlite import errors, schema
from faregate.journals.sqlite.batch import BatchPart, Change, run_batch, run_one
from faregate.journals.writer import Task, Writer

T = TypeVar("T")

_RETRY_SECONDS = 0.0005, 0.0015
"""About as long as one write takes; random, so that processes that poll in step do not keep colliding."""

_turns: dict[str, threading.Lock] = {}


def get_turn(path: str | os.PathLike[str]) -> threading.Lock:
    """Return the lock that a thread of this process holds while it writes to this file.

    SQLite lets one writer in at a time, and those who wait must try again and again. A journal and the
    service may share a file: their threads wait here instead. Other processes are still waited for by trying.
    A forked child has other locks.
    """
    name = os.fspath(path)
    return _turns.get(name) or _turns.setdefault(name, threading.Lock())


class SqliteDatabase:
    """Open nothing until it is used. A call waits up to `timeout` seconds for others.

    Raises `ConfigurationError`.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        self._file = JournalFile(path)
        self.path = self._file.path
        self._turn = get_turn(self.path)
        self._timeout = timeout
        self._connection = WriteConnection(self.path, timeout)
        self._executing = threading.Lock()
        self._forking: set[int] = set()
        self.is_shared_with_service = False
        self.writer: Writer[BatchPart] = Writer(self._execute, timeout, lambda: errors.busy(self.path))
        _databases.add(self)

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run `query` on what is in the file now. Raises `JournalError` for any error of SQLite."""
        self._file.check()
        try:
            with closing(open_connection(self.path, self._timeout)) as connection:
                return query(connection)
        except sqlite3.Error as error:
            raise errors.to_journal_error(error, self.path) from error

    def write(self, change: Callable[[sqlite3.Connection], T], durable: bool = True) -> T:
        """Run `change` in a transaction that it may share with others.

        On return it is in the file, and on the disk if `durable`. If it raises `TransactionTaken`,
        `PurchaseTaken`, or what `change` raises, nothing was written. If it raises another `JournalError`,
        the write may be in the file, and no code must rely on either.
        """
        return cast(T, self.call(Change(change, durable)))

    def call(self, work: BatchPart, *, may_be_interrupted: bool = False) -> Any:
        """Perform `work` in this thread, in a batch with what others write at the same time.

        What a signal handler raises in the main thread could end a batch in its middle, so that thread hands
        over to the writer's, unless the write `may_be_interrupted`: it is then undone. Raises `JournalError`.
        """
        if may_be_interrupted or threading.current_thread() is not threading.main_thread():
            return self.writer.perform(work)
        return self.writer.call(work)

    def check_version(self) -> None:
        """Raise `JournalUnreadable` for a journal of another version. Creates nothing."""
        if not self.path.exists():
            return
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.path)) as connection:
            schema.exists(connection, self.path)  # what else is wrong, the next to open it says

    def try_read(self, query: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run `query` on the connection that writes; None while it is in use. Raises `JournalError`."""
        if not self._executing.acquire(blocking=False):
            return None
        try:
            self._file.check()
            return query(self._connection.get())
        except sqlite3.Error as error:
            raise errors.to_journal_error(error, self.path) from error
        finally:
            self._executing.release()

    def share(self) -> None:
        """Let the service in this process write here, too.

        It syncs the outcome of a sale with what it writes before it sends a payment.
        """
        self.is_shared_with_service = True

    def prepare_with(self, prepare: Callable[[sqlite3.Connection], None]) -> None:
        """Call `prepare` with each connection that writes, from the next one on."""
        with self._executing:
            self._connection.prepare = prepare
            self._connection.close()

    def _execute(self, batch: Sequence[Task[BatchPart]]) -> None:
        """Commit a batch with one sync.

        A part that is refused does not touch the others. If the commit fails, all of them fail.
        """
        if not self._executing.acquire(timeout=self._timeout):
            raise errors.busy(self.path)
        try:
            self._file.check()
            self._commit_in_turn(batch)
        except sqlite3.Error as error:
            # Whether a failed commit is in the file cannot be known: nothing of it counts as written.
            self._connection.close(in_doubt=errors.leaves_doubt(error))
            for task in batch:
                # A write that was refused by itself keeps its own error.
                task.error = task.error or errors.to_journal_error(error, self.path)
        except BaseException:
            self._connection.close()
            raise
        finally:
            self._executing.release()

    def _commit_in_turn(self, batch: Sequence[Task[BatchPart]]) -> None:
        if not self._turn.acquire(timeout=self._timeout):
            raise errors.busy(self.path)
        try:
            self._commit(batch)
        finally:
            self._turn.release()

    def _commit(self, batch: Sequence[Task[BatchPart]]) -> None:
        connection = self._connection.get()
        self._connection.set_synchronous(connection, any(task.work.durable for task in batch))
        # A single statement commits by itself. BEGIN and COMMIT would be two more.
        if len(batch) == 1 and not batch[0].work.needs_transaction:
            retry_while_busy(lambda: run_one(batch[0], connection), self._timeout)
            return
        self._connection.begin(connection)
        run_batch(batch, connection)
        connection.execute("COMMIT")

    def disconnect(self) -> None:
        """Close the connection, and end the thread of the writer. Raises `JournalError`."""
        self.writer.stop()
        if not self._executing.acquire(timeout=self._timeout):
            raise errors.busy(self.path)
        try:
            self._connection.close()
        finally:
            self._executing.release()

    def before_fork(self) -> None:
        """Wait for the transaction to end; begin no other before `after_fork`."""
        # If this times out, Python forks anyway. The child then finds an open connection and refuses to use
        # it (`get`).
        if self._executing.acquire(timeout=self._timeout):
            # Remember the thread: two may fork at once, and each releases only what it acquired.
            self._forking.add(threading.get_ident())
            self._connection.close()

    def after_fork(self, in_child: bool) -> None:
        if in_child:
            self._executing, self._forking = threading.Lock(), set()
            self._turn = get_turn(self.path)
            self._connection.abandon()
        elif threading.get_ident() in self._forking:
            self._forking.remove(threading.get_ident())
            self._executing.release()


class JournalFile:
    """The file at a path. A file that was removed is not created again: payments in it are still open.

    Raises `ConfigurationError` if its folder does not exist, or `path` is a folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._name = str(self.path)
        if not self.path.parent.is_dir():
            raise ConfigurationError(f"The journal's folder does not exist: make {self.path.parent} first.")
        if self.path.is_dir():
            raise ConfigurationError(f"The journal {self.path} is a folder: name a file in it.")
        self._identity: tuple[int, int] | None = None

    def check(self) -> None:
        """Create the file if this process never saw it. Raises `JournalError` if it was removed or replaced.

        SQLite would go on in a file that has no name any more, and lose all it writes there.
        """
        known = self._identity  # read before the file is looked for: another thread may be creating it
        identity = self._get_identity()
        if identity is None and known is None:
            self._create()
            identity = self._get_identity()
        if identity is None or known not in (None, identity):
            raise errors.file_removed(self.path)
        self._identity = identity

    def _get_identity(self) -> tuple[int, int] | None:
        try:
            stat = os.stat(self._name)  # as text: a `Path` would be spelt out each time
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be reached: {error}") from error
        return stat.st_dev, stat.st_ino

    def _create(self) -> None:
        """Create it with mode 0600, before SQLite would create it with the process's umask.

        O_EXCL, because closing any descriptor of a file drops all POSIX locks that this process has on it,
        those of SQLite included.
        """
        try:
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be created: {error}") from error


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
        self.prepare: Callable[[sqlite3.Connection], None] | None = None

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
        if self.prepare is not None:
            self.prepare(connection)
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


_databases: weakref.WeakSet[SqliteDatabase] = weakref.WeakSet()


def _before_fork() -> None:
    for database in list(_databases):
        database.before_fork()


def _after_fork(in_child: bool) -> None:
    if in_child:
        _turns.clear()
    for database in list(_databases):
        database.after_fork(in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(False),
        after_in_child=lambda: _after_fork(True),
    )
