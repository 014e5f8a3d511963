"""The connections of this process to a Redis server. None is carried over a fork.

The library's own repetitions are off: it would repeat a write without saying so.
"""

import os
from typing import Any, Protocol, cast

from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import RedisError
from redis.retry import Retry

from faregate.errors import Misconfigured

Word = bytes | str | int | float
MOST = 10_000
"""More than a process has threads: each call that is under way has a connection."""


class Connection(Protocol):
    """What is used of the library's."""

    def send_command(self, *words: Word) -> None: ...

    def read_response(self) -> Any: ...

    def disconnect(self) -> None: ...


class Connections:
    """Raises `Misconfigured` for a URL that is none. `timeout` is for connecting, and for each answer."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._pools: dict[int, Any] = {}
        self.place = _place_of(self._made().connection_kwargs)

    def call(self, *words: Word) -> Any:
        """One command, sent once. Raises the library's `RedisError`."""
        pool = self._pool()
        connection: Connection = pool.get_connection()
        try:
            connection.send_command(*words)
            return connection.read_response()
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
        make = cast(Any, ConnectionPool).from_url
        try:
            return make(
                self._url,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                max_connections=MOST,
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                socket_keepalive=True,
            )
        except ValueError:  # which may repeat a part of the password
            raise Misconfigured(
                "The journal's Redis URL is not one: redis://USER:PASSWORD@HOST:PORT/NUMBER (rediss:// "
                "for TLS), with what is special in a password written as %XX."
            ) from None


def _place_of(known: dict[str, Any]) -> str:
    """The URL without what is secret, for people."""
    if "path" in known:
        return f"unix://{known['path']}"
    return f"redis://{known.get('host', 'localhost')}:{known.get('port', 6379)}/{known.get('db', 0)}"
