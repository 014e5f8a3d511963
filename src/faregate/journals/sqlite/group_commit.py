"""Many writes, one sync (group commit). It takes no thread of ours: whose turn it is writes for all who wait.

Each write has a savepoint of its own, so that what is wrong with one touches no other. All are committed
together, and nobody is told that it has written before that is done.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from faregate.journals.sqlite import errors
from faregate.journals.sqlite.connection import SharedConnection
from faregate.journals.sqlite.queue import Caller

Act = Callable[[sqlite3.Connection], Any]


class Write(Caller):
    """What one caller wants done in a transaction, and what came of it. `act` may be run more than once."""

    __slots__ = ("act", "answer", "done", "durable", "error")

    def __init__(self, act: Act, durable: bool) -> None:
        super().__init__()
        self.act = act
        self.durable = durable
        self.done = False
        self.answer: Any = None
        self.error: Exception | None = None


class Group:
    """The writers of one file in this process."""

    def __init__(self, link: SharedConnection) -> None:
        self._link = link

    def write(self, act: Act, durable: bool) -> Any:
        """What `act` gave, when it is in the file, and on the disk if `durable`.

        Raises what `act` raises, `sqlite3.Error`, `TimeoutError`: nothing is written then. `JournalError`:
        it may be, and nobody relies on it.
        """
        write = Write(act, durable)
        self._link.turns.run(write, lambda: self._lead(write))
        if write.error is not None:
            raise write.error
        return write.answer

    def _lead(self, own: Write) -> None:
        connection = self._link.connected()
        batch = [own]
        try:
            full = own.durable or self._link.turns.any_waits(_is_durable)
            self._link.sync(full)
            self._link.begin(connection)
            batch += self._link.turns.take(Write, lambda write: full or not write.durable)
            for write in batch:
                _do(write, connection)
            connection.execute("COMMIT")
            self._link.turns.serve()
        except sqlite3.Error as error:
            self._fail(batch, error)
        except BaseException:
            # A signal in this thread, which is not the others' fault: they are served, or another leads them.
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            elif all(write.done for write in batch):
                self._link.turns.serve()
            raise

    def _fail(self, batch: list[Write], error: sqlite3.Error) -> None:
        """What has become of the file is not known: nothing is believed to be written."""
        self._link.close(in_doubt=errors.leaves_doubt(error))
        for write in batch:
            write.error = write.error or errors.told(error, self._link.path)
        self._link.turns.serve()


def _is_durable(caller: Caller) -> bool:
    return isinstance(caller, Write) and caller.durable


def _do(write: Write, connection: sqlite3.Connection) -> None:
    write.done, write.error = False, None
    connection.execute("SAVEPOINT one")
    try:
        write.answer = write.act(connection)
    except Exception as error:
        if errors.concerns_all(error):
            raise
        write.error = error
        connection.execute("ROLLBACK TO one")
    connection.execute("RELEASE one")
    write.done = True
