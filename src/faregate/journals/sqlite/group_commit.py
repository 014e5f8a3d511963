"""Commit the writes of several threads with one sync (group commit).

No thread is started: the holder of the lock executes the writes of all who wait. Each write has a savepoint
of its own, so an error in one does not touch the others. All are committed together, and no caller returns
before that commit.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from faregate.journals.sqlite import errors
from faregate.journals.sqlite.connection import SharedConnection
from faregate.journals.sqlite.queue import Waiter

Change = Callable[[sqlite3.Connection], Any]


class Write(Waiter):
    """The write of one caller, and its result or error. `change` may be run more than once."""

    __slots__ = ("change", "durable", "error", "is_executed", "result")

    def __init__(self, change: Change, durable: bool) -> None:
        super().__init__()
        self.change = change
        self.durable = durable
        self.is_executed = False
        self.result: Any = None
        self.error: Exception | None = None


class GroupCommit:
    """The writers of one file in this process."""

    def __init__(self, connection: SharedConnection) -> None:
        self._connection = connection

    def write(self, change: Change, durable: bool) -> Any:
        """Return the result of `change` when it is in the file, and on the disk if `durable`.

        If it raises what `change` raises, `sqlite3.Error` or `TimeoutError`, nothing was written. If it
        raises `JournalError`, the write may be in the file, and nobody must rely on either.
        """
        write = Write(change, durable)
        self._connection.lock.run(write, lambda: self._commit_batch(write))
        if write.error is not None:
            raise write.error
        return write.result

    def _commit_batch(self, own: Write) -> None:
        connection = self._connection.get()
        lock = self._connection.lock
        batch = [own]
        try:
            synchronous = own.durable or lock.has_waiting(_is_durable)
            self._connection.set_synchronous(synchronous)
            self._connection.begin(connection)
            batch += lock.take_batch(Write, lambda write: synchronous or not write.durable)
            for write in batch:
                _execute(write, connection)
            connection.execute("COMMIT")
            lock.finish_batch()
        except sqlite3.Error as error:
            self._fail(batch, error)
        except BaseException:
            # A signal handler raised in this thread. The other writers must not fail for that: either the
            # commit is done and they are served, or they are requeued and the next holder writes for them.
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            elif all(write.is_executed for write in batch):
                lock.finish_batch()
            raise

    def _fail(self, batch: list[Write], error: sqlite3.Error) -> None:
        """Fail all writes: whether a failed commit is in the file cannot be known."""
        self._connection.close(in_doubt=errors.leaves_doubt(error))
        for write in batch:
            write.error = write.error or errors.to_journal_error(error, self._connection.path)
        self._connection.lock.finish_batch()


def _is_durable(waiter: Waiter) -> bool:
    return isinstance(waiter, Write) and waiter.durable


def _execute(write: Write, connection: sqlite3.Connection) -> None:
    write.is_executed, write.error = False, None
    connection.execute("SAVEPOINT one")
    try:
        write.result = write.change(connection)
    except Exception as error:
        if errors.concerns_all(error):
            raise
        write.error = error
        connection.execute("ROLLBACK TO one")
    connection.execute("RELEASE one")
    write.is_executed = True
