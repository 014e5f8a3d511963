"""The connections of this process to a Redis server. None is carried over a fork.

The library's own repetitions are off: it would repeat a write without saying so.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import RedisError
from redis.retry import Retry

from faregate.journals.redis.url import parsed

Word = bytes | str | int | float
MOST = 10_000
"""More than a process has threads: each call that is under way has a connection."""


class Connection(Protocol):
    """What is used of the library's."""

    def on_connect(self) -> None: ...

    def send_command(self, *words: Word) -> None: ...

    def read_response(self) -> Any: ...

    def disconnect(self) -> None: ...


Ask = Callable[..., Any]
"""One command, sent once; what it is answered."""


class Connections:
    """`look_at` sees each new connection before it is used, and may raise. `timeout` is for connecting, and
    for each answer. Raises `ConfigurationError` for a URL that is none.
    """

    def __init__(self, url: str, timeout: float, look_at: Callable[[Ask], None] = lambda _: None) -> None:
        self._known = parsed(url)
        self._timeout = timeout
        self._look_at = look_at
        self._pools: dict[int, Any] = {}

    def call(self, *words: Word) -> Any:
        """One command, sent once. Raises the library's `RedisError`."""
        pool = self._pool()
        connection: Connection = pool.get_connection()
        try:
            return _asked(connection, words)
        except RedisError:
            raise
        except BaseException:
            connection.disconnect()  # the answer to come would be taken for the next one's
            raise
        finally:
            pool.release(connection)

    def close(self) -> None:
        """What other threads are using goes when they are done."""
        pool = self._pools.pop(os.getpid(), None)
        if pool is not None:
            pool.disconnect(inuse_connections=False)

    def _pool(self) -> Any:
        pid = os.getpid()
        pool = self._pools.get(pid)
        if pool is None:
            pool = self._pools.setdefault(pid, self._made())
            for parent in set(self._pools) - {pid}:
                self._pools.pop(parent, None)
        return pool

    def _made(self) -> Any:
        reached = {"socket_keepalive": True} if "path" not in self._known else {}
        make = cast(Any, ConnectionPool)
        return make(
            **self._known,
            **reached,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            max_connections=MOST,
            socket_timeout=self._timeout,
            socket_connect_timeout=self._timeout,
            redis_connect_func=partial(_connected, self._look_at),
        )


def _connected(look_at: Callable[[Ask], None], connection: Connection) -> None:
    connection.on_connect()
    try:
        look_at(lambda *words: _asked(connection, words))
    except BaseException:
        connection.disconnect()  # or it would be used without another look
        raise


def _asked(connection: Connection, words: Sequence[Word]) -> Any:
    connection.send_command(*words)
    return connection.read_response()
