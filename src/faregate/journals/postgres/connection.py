"""A connection that does not wait for ever, and checks of the server at its other end."""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import psycopg
from psycopg.abc import ConnParam, PQGen
from psycopg.rows import TupleRow

from faregate.journals.postgres import errors
from faregate.logs import log

T = TypeVar("T")

_ISOLATION = b"SHOW default_transaction_isolation"
_SESSION = b"SELECT pg_backend_pid()"
_READ_COMMITTED = b"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
_IS_OFF = b"SELECT name FROM pg_settings WHERE name = ANY(%s) AND setting = 'off' ORDER BY name"
_WEAK = {
    "fsync": "payments may be forgotten, or the whole database be damaged: set fsync = on",
    "full_page_writes": "the database may be damaged: set full_page_writes = on, unless its file system "
    "never leaves a page half written",
}


class Connection(psycopg.Connection[TupleRow]):
    """Raise `ResponseTimeout` when no byte of a response came for `response_timeout` seconds.

    A server whose machine was cut off sends nothing, not even an error; libpq would wait for ever.
    """

    response_timeout = math.inf
    prepared: set[str] | None = None
    """The statements that are prepared in this session. None if there is a pooler: see `is_pooled`."""

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        try:
            return super().wait(_with_deadline(self.response_timeout, gen), *args, **options)
        except errors.ResponseTimeout:
            self.close()  # a pipeline would wait again, for what it has sent already
            raise

    def __del__(self, *_: Any) -> None:
        """Override psycopg's, which closes, or warns of, the parent's connections in a forked child."""


def _with_deadline(timeout: float, generator: PQGen[T]) -> PQGen[T]:
    # psycopg resumes its generators ten times a second, even when nothing came.
    end = time.monotonic() + timeout
    try:
        wanted = next(generator)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                raise errors.ResponseTimeout(f"no answer in {timeout:g} seconds")
            wanted = generator.send(ready)
    except StopIteration as finished:
        return cast(T, finished.value)


def connect(parameters: Mapping[str, ConnParam], timeout: float) -> Connection:
    """Connect with autocommit. psycopg prepares nothing by itself."""
    limits: dict[str, ConnParam] = {
        # libpq takes whole seconds.
        "connect_timeout": math.ceil(timeout),
        # Detect a dead server after one minute. Most systems wait for two hours by default.
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "fallback_application_name": "faregate",
    }
    # This overrides the URL: `pipeline.encode` writes text as UTF-8.
    arguments = {**limits, **parameters, "client_encoding": "UTF8"}
    open_connection: Any = Connection.connect
    connection: Connection = open_connection(autocommit=True, prepare_threshold=None, **arguments)
    connection.response_timeout = timeout
    return connection


def is_pooled(connection: Connection) -> bool:
    """Whether the session is a pooler's, which has given us a process id of its own making.

    A pooler in transaction mode (PgBouncer) gives each transaction another session: a prepared statement may
    be missing there.
    """
    return connection.execute(_SESSION).fetchone() != (connection.pgconn.backend_pid,)


def set_read_committed(connection: Connection) -> None:
    """A statement that waited for another writer must see what that one wrote.

    With a stricter default, from the server's or role's settings, it would fail instead.
    """
    if connection.execute(_ISOLATION).fetchone() != ("read committed",):
        connection.execute(_READ_COMMITTED)


def warn_if_not_durable(connection: Connection, location: str) -> None:
    """Warn of settings with which a power cut loses committed writes."""
    for [name] in connection.execute(_IS_OFF, [list(_WEAK)]):
        log(
            "journal",
            logging.WARNING,
            "%s has %s = off: when its machine loses power, %s",
            location,
            name,
            _WEAK[name],
        )
