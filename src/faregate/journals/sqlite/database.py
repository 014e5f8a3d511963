"""One SQLite file as this process uses it: one connection that reads, and one that writes for all threads.

Readers do not wait for the disk. SQLite lets one write at a time into a file, so threads with connections of
their own would only wait inside it, unfairly, and each would pay for a sync of its own.
"""

import os
import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, cast

from faregate.errors import ConfigurationError, JournalError
from faregate.journals.sqlite import errors
from faregate.journals.sqlite.connection import SharedConnection
from faregate.journals.sqlite.group_commit import GroupCommit
from faregate.journals.sqlite.queue import Waiter

T = TypeVar("T")


class Database:
    """Open nothing until it is used. A call waits up to `timeout` seconds for others.

    Raises `ConfigurationError`.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        file = JournalFile(path)
        self.path = file.path
        self._reader = SharedConnection(file.path, timeout, file.check)
        self._writer = SharedConnection(file.path, timeout, file.check)
        self._group_commit = GroupCommit(self._writer)
        _databases.add(self)

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run `query` on what is in the file now. Raises `JournalError` for any error of SQLite."""
        try:
            return cast(T, self._reader.lock.run(Waiter(), lambda: self._query(query)))
        except TimeoutError as error:
            raise errors.busy(self.path) from error
        except sqlite3.Error as error:
            raise errors.to_journal_error(error, self.path) from error

    def _query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return query(self._reader.get())
        except sqlite3.Error:
            self._reader.close()
            raise

    def write(self, change: Callable[[sqlite3.Connection], T], durable: bool = True) -> T:
        """Run `change` in a transaction that it may share with other threads; it may be run more than once.

        On return it is in the file, and on the disk if `durable`. Raises `JournalError` for any error of
        SQLite but `IntegrityError`, which is raised as it is: a constraint refused the write.
        """
        try:
            return cast(T, self._group_commit.write(change, durable))
        except TimeoutError as error:
            raise errors.busy(self.path) from error
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise errors.to_journal_error(error, self.path) from error

    def disconnect(self) -> None:
        for connection in (self._reader, self._writer):
            connection.disconnect()

    def before_fork(self) -> None:
        for connection in (self._reader, self._writer):
            connection.before_fork()

    def after_fork(self, in_child: bool) -> None:
        for connection in (self._reader, self._writer):
            connection.after_fork(in_child)


class JournalFile:
    """The file at a path. A file that was removed is not created again: payments in it are still open.

    Raises `ConfigurationError` if its folder does not exist, or `path` is a folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        if not self.path.parent.is_dir():
            raise ConfigurationError(f"The journal's folder does not exist: make {self.path.parent} first.")
        if self.path.is_dir():
            raise ConfigurationError(f"The journal {self.path} is a folder: name a file in it.")
        self._identity: tuple[int, int] | None = None

    def check(self) -> None:
        """Create the file if this process never saw it. Raises `JournalError` if it was removed or replaced.

        SQLite would go on in a file that has no name any more, and lose all it writes there.
        """
        identity = self._get_identity()
        if identity is None and self._identity is None:
            self._create()
            identity = self._get_identity()
        if identity is None or self._identity not in (None, identity):
            raise errors.file_removed(self.path)
        self._identity = identity

    def _get_identity(self) -> tuple[int, int] | None:
        try:
            stat = self.path.stat()
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


_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _before_fork() -> None:
    for database in list(_databases):
        database.before_fork()


def _after_fork(in_child: bool) -> None:
    for database in list(_databases):
        database.after_fork(in_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(False),
        after_in_child=lambda: _after_fork(True),
    )
