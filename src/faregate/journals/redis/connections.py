"""The connection of this process to a Redis server: commands, accepted URLs, and checks of the server.

A connection is not carried over a fork: two processes would read each other's replies. The library's own
retries are off: it would repeat a write without the script knowing. With each new connection it is checked
whether the server can be trusted with a journal.
"""

import logging
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

from redis import connection as redis_connection
from redis.backoff import NoBackoff
from redis.exceptions import ClusterCrossSlotError, ClusterDownError, MovedError, RedisError, ResponseError
from redis.retry import Retry

from faregate.errors import ConfigurationError
from faregate.logs import log

Word = bytes | str | int | float
LARGE = 64 * 1024
"""A longer word is sent by itself: copying it would cost more than another system call."""


def encode_words(words: Sequence[Word]) -> list[bytes]:
    """Encode the words of a command, which `encode_count` precedes."""
    encoded = [
        word if isinstance(word, bytes) else (word if isinstance(word, str) else repr(word)).encode()
        for word in words
    ]
    if max(map(len, encoded)) <= LARGE:
        return [b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded])]
    return join_small(chain.from_iterable((b"$%d\r\n" % len(word), word, b"\r\n") for word in encoded))


def encode_count(words: int) -> bytes:
    return b"*%d\r\n" % words


def encode_command(*words: Word) -> list[bytes]:
    return [encode_count(len(words)), *encode_words(words)]


def join_small(parts: Iterable[bytes]) -> list[bytes]:
    joined: list[bytes] = []
    small: list[bytes] = []
    for part in parts:
        if len(part) > LARGE:
            joined += (b"".join(small), part)
            small = []
        else:
            small.append(part)
    return [*joined, b"".join(small)]


class RedisConnection(Protocol):
    """The methods of the library's connections that are used here."""

    def connect(self) -> None: ...

    def on_connect(self) -> None: ...

    def send_packed_command(self, parts: Sequence[bytes]) -> None: ...

    def read_response(self) -> Any: ...

    def disconnect(self) -> None: ...


SendCommand = Callable[..., Any]
"""Sends one command once; returns the reply."""


class Connections:
    """One connection for each process, or several if threads use it at the same time.

    `timeout` is for connecting, and for each reply, in seconds. `check` runs on each new connection before it
    is used, and may raise. Raises `ConfigurationError` for an invalid URL.
    """

    def __init__(
        self, url: str, timeout: float, check: Callable[[SendCommand], None] = lambda _: None
    ) -> None:
        self._parameters = parse_url(url)
        self._create: Callable[..., RedisConnection] = self._parameters.pop(
            "connection_class", redis_connection.Connection
        )
        self._timeout = timeout
        self._check = check
        self._idle: dict[int, RedisConnection] = {}
        """By process id: a child must not use, nor shut down, what its parent had open."""

    def call(self, *words: Word) -> Any:
        """Send one command once. Raises the library's `RedisError`, or what `check` raises."""
        [reply] = self.send([encode_command(*words)])
        if isinstance(reply, Exception):
            raise reply
        return reply

    def send(self, commands: Sequence[Sequence[bytes]]) -> list[Any]:
        """Send encoded commands in one go, each once. Return the reply to each, or the error instead of it.

        An error in one command does not touch the others, unless the connection is lost. Then all that were
        not answered have this error.
        """
        replies: list[Any] = []
        # Take the connection out while it is used, so that another thread opens its own.
        connection = self._idle.pop(os.getpid(), None)
        try:
            if connection is None:
                connection = self._make_connection()
                connection.connect()
            connection.send_packed_command(join_small(chain.from_iterable(commands)))
            for _ in commands:
                replies.append(_read_reply(connection))
        except BaseException as error:
            # The next command would get the replies that were not read, or a server that was not checked.
            if connection is not None:
                connection.disconnect()
            if not isinstance(error, RedisError | ConfigurationError):
                raise
            return replies + [error] * (len(commands) - len(replies))
        self._idle[os.getpid()] = connection
        return replies

    def close(self) -> None:
        """Close the connection, unless it is in use."""
        connection = self._idle.pop(os.getpid(), None)
        if connection is not None:
            connection.disconnect()

    def _make_connection(self) -> RedisConnection:
        self._idle.clear()  # what was the parent's
        keepalive = {"socket_keepalive": True} if "path" not in self._parameters else {}
        return self._create(
            **self._parameters,
            **keepalive,
            # `ScriptClient` repeats commands itself, and tells the script that it does.
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            socket_timeout=self._timeout,
            socket_connect_timeout=self._timeout,
            redis_connect_func=partial(_on_connect, self._check),
        )


def _on_connect(check: Callable[[SendCommand], None], connection: RedisConnection) -> None:
    connection.on_connect()

    def send(*words: Word) -> Any:
        connection.send_packed_command(encode_command(*words))
        return connection.read_response()

    check(send)


def _read_reply(connection: RedisConnection) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


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


# Checks of the server

_SAFE = "for the promise that SQLite gives, set appendonly yes and appendfsync always"
_LOST = "a payment of that time is then unknown, or its work runs a second time"
_TAKEN_OVER = f"a replica has taken over; it may not have what was written last, and {_LOST}"
_UNKNOWN = "whether it forgets payments to make room could not be checked"
_WINDOWS = {"everysec": "about the last second", "no": "some of the last minute"}


class ServerCheck:
    """Checks each server that a connection is made to: after a fail-over it is another one."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._warned: set[str] = set()
        self._history = ""

    def run(self, send: SendCommand) -> None:
        """Warn once of each weakness. Raises `ConfigurationError` if the server may evict or move rows."""
        settings = {**_get_info(send), **_get_config(send)}
        if settings.get("redis_mode") == "sentinel":
            raise ConfigurationError(
                f"The Redis at {self._location} is a Sentinel, which stores nothing: use the address of its "
                "primary."
            )
        _refuse_cluster(send, self._location)
        policy = settings.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise ConfigurationError(
                f"The Redis at {self._location} may forget payments to make room: its maxmemory-policy is "
                f"{policy}. Set maxmemory-policy noeviction, or name another server for the journal."
            )
        for weakness in _find_weaknesses(settings):
            if weakness not in self._warned:
                self._warned.add(weakness)
                log("journal", logging.WARNING, "the journal at %s: %s", self._location, weakness)
        self._warn_of_fail_over(settings.get("master_replid", ""), settings.get("master_replid2", ""))

    def _warn_of_fail_over(self, history: str, before: str) -> None:
        """Compare replication ids: a replica that was promoted has a new one, and knows the one before."""
        if self._history not in ("", history) and before == self._history:
            log("journal", logging.WARNING, "the journal at %s: %s", self._location, _TAKEN_OVER)
        self._history = history or self._history


def _refuse_cluster(send: SendCommand, location: str) -> None:
    """Name two keys of different slots, which a cluster refuses. Any user who may read may ask that."""
    try:
        send("EXISTS", "faregate:{one}", "faregate:{other}")
    except (ClusterCrossSlotError, ClusterDownError, MovedError):
        raise ConfigurationError(
            f"The Redis at {location} is part of a cluster, which moves keys from node to node while they "
            "are in use. Use a Redis server outside of a cluster, or PostgreSQL."
        ) from None


def _find_weaknesses(settings: dict[str, str]) -> Generator[str]:
    aof, fsync = settings.get("aof_enabled"), settings.get("appendfsync")
    if "maxmemory_policy" not in settings:
        yield f"{_UNKNOWN}: it must have maxmemory-policy noeviction"
    if aof == "0":
        yield f"appendonly is off, so a stop loses what came after the last snapshot: {_LOST}; {_SAFE}"
    elif aof is None or fsync is None:
        yield f"what a power cut loses could not be checked; {_SAFE}"
    elif fsync != "always":
        lost = _WINDOWS.get(fsync, "what was not on its disk yet")
        yield f"appendfsync is {fsync}, so a power cut loses {lost}: {_LOST}; {_SAFE}"


def _get_info(send: SendCommand) -> dict[str, str]:
    """Empty if an ACL forbids INFO."""
    try:
        lines = send("INFO").decode().splitlines()
    except ResponseError:
        return {}
    fields = (line.partition(":") for line in lines)
    return {name: value for name, _, value in fields}


def _get_config(send: SendCommand) -> dict[str, str]:
    """Empty if CONFIG is forbidden, as many providers do."""
    try:
        name, value = send("CONFIG", "GET", "appendfsync")
    except (ResponseError, ValueError):
        return {}
    return {name.decode(): value.decode()}
