"""One SQLite file as this process has it: one connection behind one lock, opened when first needed.

SQLite lets one write at a time into a file, so threads with connections of their own would only wait
inside it, and unfairly. A connection must not be carried over a fork: the child would believe in locks
that it does not have. So the file is closed before a fork, and parent and child each open it anew.
"""

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from faregate.errors import JournalError, Misconfigured
from faregate.journals.sqlite import faults, schema

_PAUSE = 0.01


class SqliteFile:
    """Opens nothing until it is used. `patience` is how many seconds a call waits for other writers.

    Raises `Misconfigured`.
    """

    def __init__(self, path: str | os.PathLike[str], patience: float) -> None:
        self.path = Path(path).absolute()
        if not self.path.parent.is_dir():
            raise Misconfigured(f"The journal's folder does not exist: make {self.path.parent} first.")
        self._patience = patience
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._closing: weakref.finalize[..., SqliteFile] | None = None
        self._pid = 0
        self._place: tuple[int, int] | None = None
        self._stopped = False
        _files.add(self)

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """The connection. What SQLite raises is a `JournalError`, but for a refused write."""
        if not self._lock.acquire(timeout=self._patience):
            raise faults.busy(self.path)
        try:
            yield self._connected()
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            self._close()
            raise faults.told(error, self.path) from error
        finally:
            self._lock.release()

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """One transaction, which is on the disk when the block is left without an error."""
        with self.reading() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def disconnect(self) -> None:
        with self._lock:
            self._close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._pid != os.getpid():
            raise faults.forked(self.path)
        self._check_place()
        if self._connection is None:
            self._connection = self._open()
            self._closing = weakref.finalize(self, self._connection.close)
            self._pid = os.getpid()
        return self._connection

    def _check_place(self) -> None:
        """A file that was taken away is not made anew behind the back of those who are owed something."""
        place = self._found()
        if place is None and self._place is None:
            self._make()
            place = self._found()
        if place is None or self._place not in (None, place):
            raise faults.taken_away(self.path)
        self._place = place

    def _found(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be reached: {error}") from error
        return found.st_dev, found.st_ino

    def _make(self) -> None:
        """For its owner alone. Never on a file that is there: closing it would end SQLite's locks."""
        try:
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be made: {error}") from error

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._patience, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("BEGIN")  # one view of the file, which another process may be making
            made = schema.is_made(connection, self.path)
            connection.execute("COMMIT")
            self._use_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
            if not made:
                connection.execute("BEGIN IMMEDIATE")
                schema.make(connection, self.path)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """SQLite does not wait for others who do the same at the same moment, so we do."""
        end = time.monotonic() + self._patience
        while True:
            try:
                [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if not faults.is_busy(error) or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE)
        if mode != "wal":
            raise JournalError(f"the journal {self.path} must be on a disk where SQLite can use its WAL")

    def _close(self) -> None:
        if self._closing is not None:
            self._closing()
        self._connection = self._closing = None

    # Forks

    def before_fork(self) -> None:
        self._stopped = self._lock.acquire(timeout=self._patience)
        if self._stopped:
            self._close()

    def after_fork(self, in_child: bool) -> None:
        if self._stopped:
            self._stopped = False
            self._lock.release()
        elif in_child:
            # Whoever held it does not exist here. A connection that came along is refused when it is needed.
            self._lock = threading.Lock()
            if self._closing is not None:
                self._closing.detach()


_files: weakref.WeakSet[SqliteFile] = weakref.WeakSet()


def _before_fork() -> None:
    for file in list(_files):
        file.before_fork()


def _after_fork(in_child: bool) -> None:
    for file in list(_files):
        file.after_fork(in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(False),
        after_in_child=lambda: _after_fork(True),
    )
