"""The connections of one process to one server: a few, opened when they are needed, used in turn.

They must not be carried over a fork: two processes would talk at once on one line. So each process has a
home of its own for them, and leaves alone what came along from its parent.
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

from faregate.errors import ConfigurationError
from faregate.journals.postgres import errors, schema
from faregate.journals.postgres.connection import Connection, connected, read_committed, warn_of

T = TypeVar("T")
Ask = Callable[[Connection, bool], T]


class Pool:
    """Opens nothing until it is used. `timeout` is how many seconds it waits for anything.

    Raises `ConfigurationError`.
    """

    def __init__(self, url: str, timeout: float, connections: int) -> None:
        try:
            self._parameters = conninfo_to_dict(url)
        except psycopg.Error:
            raise errors.not_a_url() from None
        self.place = errors.place_of(self._parameters)
        if connections < 1:
            raise ConfigurationError("A PostgreSQL journal needs at least one connection.")
        self._timeout = timeout
        # The server gives up on a lock first, and says so.
        self.lock_timeout = f"{750 * timeout:.0f}ms"
        self._connections = connections
        self._seen = False
        self._homes: dict[int, _Home] = {}
        weakref.finalize(self, _close_ours, self._homes)

    def run(self, ask: Ask[T]) -> T:
        """What `ask` gives. If its connection breaks it is asked once more, on a new one, and told so: what
        it asked may have been done already. What PostgreSQL raises is a `JournalError`, but for a refused
        write.
        """
        with self._place() as home:
            try:
                return self._asked(home, home.take() or self._opened(), ask, False)
            except errors.Broken:
                home.close()  # the others are as old
                return self._asked(home, self._opened(), ask, True)

    def disconnect(self) -> None:
        self._home().close()

    def _home(self) -> "_Home":
        return self._homes.get(os.getpid()) or self._homes.setdefault(os.getpid(), _Home(self._connections))

    @contextmanager
    def _place(self) -> Generator["_Home"]:
        home = self._home()
        if not home.places.acquire(timeout=self._timeout):
            raise errors.busy(self.place)
        try:
            yield home
        finally:
            home.places.release()

    def _asked(self, home: "_Home", connection: Connection, ask: Ask[T], again: bool) -> T:
        try:
            return ask(connection, again)
        except psycopg.IntegrityError:
            raise
        except psycopg.Error as error:
            if errors.is_lost(error, connection):
                raise errors.broken(error, self.place) from error
            raise errors.to_journal_error(error, self.place) from error
        finally:
            home.give_back(connection)

    def _opened(self) -> Connection:
        try:
            connection = connected(self._parameters, self._timeout)
        except psycopg.Error as error:
            raise errors.unreachable(error, self.place) from error
        try:
            self._check(connection)
        except psycopg.Error as error:
            connection.close()
            raise errors.to_journal_error(error, self.place) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: Connection) -> None:
        """Tables that were taken away are not made anew behind the back of those who are owed something."""
        read_committed(connection)
        if not self._seen:
            warn_of(connection, self.place)
        if not schema.is_made(connection, self.place):
            if self._seen:
                raise errors.taken_away(self.place)
            schema.make(connection, self.place, self.lock_timeout)
        self._seen = True


class _Home:
    """What one process has: places to be taken, and the connections that nobody uses at the moment."""

    def __init__(self, places: int) -> None:
        self.places = threading.BoundedSemaphore(places)
        self._idle: list[Connection] = []

    def take(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def give_back(self, connection: Connection) -> None:
        """Unless it is in the middle of something."""
        if connection.pgconn.transaction_status == TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        while (connection := self.take()) is not None:
            connection.close()


def _close_ours(homes: dict[int, _Home]) -> None:
    if (home := homes.get(os.getpid())) is not None:
        home.close()
