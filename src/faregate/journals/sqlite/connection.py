"""One connection to the file, which the threads of this process use in turn.

A connection must not be carried over a fork: the child would believe in locks that it does not have. So
it is closed before a fork, and parent and child each open it anew.
"""

import os
import sqlite3
import threading
import weakref

from faregate.journals.sqlite import errors
from faregate.journals.sqlite.opening import empty_log, opened
from faregate.journals.sqlite.path import Place
from faregate.journals.sqlite.queue import Caller, FairLock
from faregate.journals.sqlite.retry import patiently


class SharedConnection:
    """Opens nothing until it is used. `patience` is how many seconds a call waits for others."""

    def __init__(self, place: Place, patience: float) -> None:
        self.path = place.path
        self.turns = FairLock(patience)
        self._place = place
        self._patience = patience
        self._connection: sqlite3.Connection | None = None
        self._closing: weakref.finalize[..., SharedConnection] | None = None
        self._pid = 0
        self._syncs = True
        self._in_doubt = False
        self._forking: dict[int, Caller] = {}

    # In one's turn

    def connected(self) -> sqlite3.Connection:
        """Raises `JournalError`, `sqlite3.Error`."""
        if self._connection is not None and self._pid != os.getpid():
            raise errors.forked(self.path)
        self._place.check()
        if self._connection is not None and self._connection.in_transaction:
            self.close()  # a signal left it so
        return self._connected_anew() if self._connection is None else self._connection

    def _connected_anew(self) -> sqlite3.Connection:
        self._connection = connection = opened(self.path, self._patience)
        self._closing = weakref.finalize(self, connection.close)
        self._pid = os.getpid()
        self._syncs = True
        if self._in_doubt:
            empty_log(connection, self.path)
            self._in_doubt = False
        connection.execute("PRAGMA busy_timeout = 0")  # from here on we wait ourselves
        return connection

    def begin(self, connection: sqlite3.Connection) -> None:
        """A transaction that writes: other processes wait for its end."""
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"), self._patience)

    def sync(self, durable: bool) -> None:
        """Whether commits are forced to the disk from now on. Those that are take the earlier ones along."""
        if self._connection is not None and self._syncs is not durable:
            self._syncs = False  # whatever comes in between, it never claims too much
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._syncs = durable

    def close(self, in_doubt: bool = False) -> None:
        """`in_doubt`: the disk failed to sync, and need not say so again: that log is closed."""
        self._in_doubt = self._in_doubt or in_doubt
        if self._closing is not None:
            self._closing()
        self._connection = self._closing = None

    # For all who have no turn

    def disconnect(self) -> None:
        """Raises `JournalError`."""
        try:
            self.turns.run(Caller(firm=True), self.close)
        except TimeoutError:
            raise errors.busy(self.path) from None

    def before_fork(self) -> None:
        caller = Caller(firm=True)
        try:
            self.turns.come(caller)
            self.close()
        except TimeoutError:
            self.turns.leave(caller)
        else:
            self._forking[threading.get_ident()] = caller

    def after_fork(self, in_child: bool) -> None:
        caller = self._forking.pop(threading.get_ident(), None)
        if not in_child and caller is not None:
            self.turns.leave(caller)
        elif in_child:
            # Whoever waited or had the turn does not exist here.
            self.turns = FairLock(self._patience)
            self._forking = {}
            if self._closing is not None:
                # A connection that came along is refused when it is needed.
                self._closing.detach()
