"""The connections of this process to a Redis server, and the URLs that it accepts.

Connections are not carried over a fork: two processes would read each other's replies. The library's own
retries are off: it would repeat a write without the script knowing.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

from redis import connection as redis_connection
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.exceptions import RedisError
from redis.retry import Retry

from faregate.errors import ConfigurationError

Word = bytes | str | int | float
MAX_CONNECTIONS = 10_000
"""More than a process has threads: each call under way has a connection."""


class Connection(Protocol):
    """What is used of the library's connections."""

    def on_connect(self) -> None: ...

    def send_command(self, *words: Word) -> None: ...

    def read_response(self) -> Any: ...

    def disconnect(self) -> None: ...


SendCommand = Callable[..., Any]
"""Sends one command once; returns the reply."""


class Connections:
    """A pool for each process. `timeout` is for connecting, and for each reply, in seconds.

    `check` runs on each new connection before it is used, and may raise. Raises `ConfigurationError` for an
    invalid URL.
    """

    def __init__(
        self, url: str, timeout: float, check: Callable[[SendCommand], None] = lambda _: None
    ) -> None:
        self._parameters = parse_url(url)
        self._timeout = timeout
        self._check = check
        self._pools: dict[int, Any] = {}

    def call(self, *words: Word) -> Any:
        """Send one command once. Raises the library's `RedisError`."""
        pool = self._get_pool()
        connection: Connection = pool.get_connection()
        try:
            return _send(connection, words)
        except RedisError:
            raise
        except BaseException:
            # A signal handler raised before the reply was read: the next command would get that reply.
            connection.disconnect()
            raise
        finally:
            pool.release(connection)

    def close(self) -> None:
        """Close idle connections at once; the others when their calls are done."""
        pool = self._pools.pop(os.getpid(), None)
        if pool is not None:
            pool.disconnect(inuse_connections=False)

    def _get_pool(self) -> Any:
        pid = os.getpid()
        pool = self._pools.get(pid)
        if pool is None:
            pool = self._pools.setdefault(pid, self._create_pool())
            for parent in set(self._pools) - {pid}:
                self._pools.pop(parent, None)
        return pool

    def _create_pool(self) -> Any:
        keepalive = {"socket_keepalive": True} if "path" not in self._parameters else {}
        create = cast(Any, ConnectionPool)
        return create(
            **self._parameters,
            **keepalive,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            max_connections=MAX_CONNECTIONS,
            socket_timeout=self._timeout,
            socket_connect_timeout=self._timeout,
            redis_connect_func=partial(_on_connect, self._check),
        )


def _on_connect(check: Callable[[SendCommand], None], connection: Connection) -> None:
    connection.on_connect()
    try:
        check(lambda *words: _send(connection, words))
    except BaseException:
        connection.disconnect()  # the pool would hand it out as connected, and unchecked
        raise


def _send(connection: Connection, words: Sequence[Word]) -> Any:
    connection.send_command(*words)
    return connection.read_response()


_OPTIONS = {"db", "username", "password", "client_name"}
_TLS_OPTIONS = {
    "ssl_ca_certs",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
    "ssl_min_version",
    "ssl_password",
}
_OPTIONS_OF_SCHEME = {"redis": _OPTIONS, "rediss": _OPTIONS | _TLS_OPTIONS, "unix": _OPTIONS}


def parse_url(url: str) -> dict[str, Any]:
    """Return arguments for the library's connections. Raises `ConfigurationError`."""
    try:
        _check_url(urlsplit(url))
        return cast(dict[str, Any], cast(Any, redis_connection).parse_url(url))
    except ValueError:  # not chained: it may repeat a part of the password
        raise ConfigurationError(
            "The journal's Redis URL is invalid. Use redis://USER:PASSWORD@HOST:PORT/NUMBER, rediss:// for "
            f"TLS (query parameters: {', '.join(sorted(_TLS_OPTIONS))}), or "
            "unix://USER:PASSWORD@/PATH?db=NUMBER, with special characters in the password percent-encoded."
        ) from None


def _check_url(url: SplitResult) -> None:
    """Raises `ValueError`. The library would read a malformed number as 0, a missing host as localhost."""
    if url.scheme == "unix":
        has_address = bool(url.path) and not url.hostname
    else:
        number = url.path.removeprefix("/")
        has_address = bool(url.hostname) and (not number or (number.isascii() and number.isdigit()))
    options = {name for name, _ in parse_qsl(url.query, keep_blank_values=True)}
    if not has_address or url.fragment or not options <= _OPTIONS_OF_SCHEME.get(url.scheme, set()):
        raise ValueError


def describe_url(url: str) -> str:
    """Return the URL without secrets, for messages. Raises `ConfigurationError`."""
    parameters = parse_url(url)
    if "path" in parameters:
        return f"unix://{parameters['path']}?db={parameters.get('db', 0)}"
    host = f"[{parameters['host']}]" if ":" in parameters["host"] else parameters["host"]
    scheme = url.partition(":")[0]
    return f"{scheme}://{host}:{parameters.get('port', 6379)}/{parameters.get('db', 0)}"
