"""One SQLite file as this process has it: one connection that reads, and one that writes for all threads.

Who reads does not wait for the disk. SQLite lets one write at a time into a file, so threads with
connections of their own would only wait inside it, unfairly, and each for a sync of its own.
"""

import os
import sqlite3
import weakref
from collections.abc import Callable
from typing import TypeVar, cast

from faregate.journals.sqlite import errors
from faregate.journals.sqlite.connection import SharedConnection
from faregate.journals.sqlite.group_commit import Group
from faregate.journals.sqlite.path import Place
from faregate.journals.sqlite.queue import Caller

T = TypeVar("T")


class SqliteFile:
    """Opens nothing until it is used. `patience` is how many seconds a call waits for others.

    Raises `ConfigurationError`.
    """

    def __init__(self, path: str | os.PathLike[str], patience: float) -> None:
        place = Place(path)
        self.path = place.path
        self._reader, self._writer = SharedConnection(place, patience), SharedConnection(place, patience)
        self._group = Group(self._writer)
        _files.add(self)

    def read(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """What is in the file now. What SQLite raises is a `JournalError`."""
        try:
            return cast(T, self._reader.turns.run(Caller(), lambda: self._look(act)))
        except TimeoutError as error:
            raise errors.busy(self.path) from error
        except sqlite3.Error as error:
            raise errors.told(error, self.path) from error

    def _look(self, act: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return act(self._reader.connected())
        except sqlite3.Error:
            self._reader.close()
            raise

    def write(self, act: Callable[[sqlite3.Connection], T], durable: bool = True) -> T:
        """`act` in a transaction that other threads' writes may share; it may be run more than once.

        It is in the file when this returns, and on the disk if `durable`. What SQLite raises is a
        `JournalError`, but for a write that the file's own rules refuse.
        """
        try:
            return cast(T, self._group.write(act, durable))
        except TimeoutError as error:
            raise errors.busy(self.path) from error
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise errors.told(error, self.path) from error

    def disconnect(self) -> None:
        for link in (self._reader, self._writer):
            link.disconnect()

    def before_fork(self) -> None:
        for link in (self._reader, self._writer):
            link.before_fork()

    def after_fork(self, in_child: bool) -> None:
        for link in (self._reader, self._writer):
            link.after_fork(in_child)


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
