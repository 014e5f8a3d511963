"""A connection that waits for no answer for ever, and what it must find at the other end."""

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
_READ_COMMITTED = b"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
_IS_OFF = b"SELECT name FROM pg_settings WHERE name = ANY(%s) AND setting = 'off' ORDER BY name"
_WEAK = {
    "fsync": "payments may be forgotten, or the whole database be damaged: set fsync = on",
    "full_page_writes": "the database may be damaged: set full_page_writes = on, unless its file system "
    "never leaves a page half written",
}


class Connection(psycopg.Connection[TupleRow]):
    """Gives up on an answer of which nothing came for `timeout` seconds."""

    response_timeout = math.inf

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        return super().wait(_within(self.response_timeout, gen), *args, **options)

    def __del__(self, *_: Any) -> None:
        """The pool closes what it opened. What came along over a fork is nobody's to close, or to warn of."""


def _within(timeout: float, answering: PQGen[T]) -> PQGen[T]:
    """psycopg asks ten times a second, even if nothing came."""
    end = time.monotonic() + timeout
    try:
        wanted = next(answering)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                raise errors.Late(f"no answer in {timeout:g} seconds")
            wanted = answering.send(ready)
    except StopIteration as finished:
        return cast(T, finished.value)


def connected(parameters: Mapping[str, ConnParam], timeout: float) -> Connection:
    """To whatever is there. Every statement is a transaction of its own, and none is prepared: behind a
    pooler, what another process prepared under the same name would be done instead.
    """
    limits: dict[str, ConnParam] = {
        "connect_timeout": math.ceil(timeout),
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "fallback_application_name": "faregate",
    }
    given = {**limits, **parameters, "client_encoding": "UTF8"}
    made: Any = Connection.connect
    connection: Connection = made(autocommit=True, prepare_threshold=None, **given)
    connection.response_timeout = timeout
    return connection


def read_committed(connection: Connection) -> None:
    """Who waited for another writer must look anew at what that one wrote."""
    if connection.execute(_ISOLATION).fetchone() != ("read committed",):
        connection.execute(_READ_COMMITTED)


def warn_of(connection: Connection, place: str) -> None:
    """Of a server that may lose what it was told."""
    for [name] in connection.execute(_IS_OFF, [list(_WEAK)]):
        log(logging.WARNING, "%s has %s = off: when its machine loses power, %s", place, name, _WEAK[name])
