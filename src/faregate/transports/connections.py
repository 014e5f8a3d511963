"""Blocking connections to the service, and what the others share with them."""

import os
import select
import socket
import ssl
from contextlib import suppress
from functools import cache
from time import monotonic
from typing import Protocol

import certifi

from faregate.transports.messages import Origin, Reply, ReplyReader, RequestBytes

CHUNK = 64 * 1024
ADDRESS_SECONDS = 2.0
"""How long one address of several is waited for: long enough for one lost packet to be sent again."""


@cache
def make_ssl_context() -> ssl.SSLContext:
    """Trust certifi, or what `SSL_CERT_FILE` or `SSL_CERT_DIR` names, as httpx does. Slow to make."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or not folder:
        context = ssl.create_default_context(cafile=file or certifi.where())
    else:
        context = ssl.create_default_context(capath=folder)
    # A server that prefers HTTP/2 must not choose it: only HTTP/1.1 is spoken here.
    context.set_alpn_protocols(["http/1.1"])
    return context


class HttpConnection:
    """Blocking. After an error in `exchange` it can only be closed.

    The timeout of a socket is for one read, and a peer that drips bytes resets it for ever. So the socket
    never blocks, and each wait here ends at `moment`, the deadline of the call (`time.monotonic`). A socket
    with a timeout would also release the interpreter's lock twice as often, and under load each release
    switches threads.
    """

    def __init__(self, origin: Origin, moment: float, max_bytes: int) -> None:
        self.origin = origin
        self._socket = _connect(origin, moment)
        self._reader = ReplyReader(max_bytes)

    def exchange(self, request: RequestBytes, moment: float) -> Reply:
        """Send a request and read its reply."""
        self._reader.start()
        rest = memoryview(request)
        # A service may refuse a request, and close, before it has read all of it: its reply is there.
        try:
            while rest:
                rest = rest[self._send(rest, moment) :]
        except ConnectionError:
            pass
        while self._reader.reply is None:
            self._reader.receive(self._receive(moment))
        return self._reader.reply

    def _send(self, data: memoryview, moment: float) -> int:
        get_remaining(moment)  # nothing is sent after the deadline
        while True:
            try:
                return self._socket.send(data)
            except ssl.SSLWantReadError:
                _wait_until_readable(self._socket, moment)
            except (BlockingIOError, ssl.SSLWantWriteError):
                _wait_until_writable(self._socket, moment)

    def _receive(self, moment: float) -> bytes:
        if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
            _wait_until_readable(self._socket, moment)
        while True:
            try:
                return self._socket.recv(CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError):
                _wait_until_readable(self._socket, moment)
            except ssl.SSLWantWriteError:
                _wait_until_writable(self._socket, moment)

    def can_start(self) -> bool:
        """Whether this connection can carry another exchange."""
        return self._reader.can_start

    def is_stale(self) -> bool:
        """Whether the service closed it meanwhile, or sent data without a request."""
        return is_readable(self._socket)

    def close(self) -> None:
        # An error here must not fail the call that happens to close the connection.
        with suppress(OSError):
            self._socket.close()


def get_remaining(moment: float) -> float:
    """Seconds until `moment`. Raises `TimeoutError` when there are none."""
    seconds_left = moment - monotonic()
    if seconds_left <= 0:
        raise TimeoutError("the deadline of the call is over")
    return seconds_left


def _connect(origin: Origin, moment: float) -> socket.socket:
    connected = _connect_tcp(origin, moment)
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if origin.is_tls:
            connected.settimeout(get_remaining(moment))
            connected = make_ssl_context().wrap_socket(connected, server_hostname=origin.host)
        connected.setblocking(False)
    except BaseException:
        connected.close()
        raise
    return connected


def _connect_tcp(origin: Origin, moment: float) -> socket.socket:
    """Try one address at a time: given the host, the system would give each of them all that is left.

    One that is not the last gets only part of it, so that the others are tried.
    """
    entries = socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    *others, last = dict.fromkeys(str(entry[4][0]) for entry in entries)
    for address in others:
        with suppress(OSError):
            seconds = min(ADDRESS_SECONDS, get_remaining(moment) / 2)
            return socket.create_connection((address, origin.port), seconds)
    return socket.create_connection((last, origin.port), get_remaining(moment))


class HasFileno(Protocol):
    def fileno(self) -> int: ...


def is_readable(connection: HasFileno) -> bool:
    """Whether a socket has something to read, or was closed."""
    return connection.fileno() < 0 or _poll(connection, 0)


def _wait_until_readable(connection: HasFileno, moment: float) -> None:
    """Raises `TimeoutError` at `moment`."""
    while not _poll(connection, get_remaining(moment)):
        pass


def _wait_until_writable(connection: HasFileno, moment: float) -> None:
    """Raises `TimeoutError` at `moment`."""
    while not _poll(connection, get_remaining(moment), for_writing=True):
        pass


def _poll(connection: HasFileno, seconds: float, *, for_writing: bool = False) -> bool:
    """Wait so many seconds for a socket to be readable, or writable; return whether it is."""
    if not hasattr(select, "poll"):
        # Windows, and under gevent.
        waited_for: list[HasFileno] = [connection]
        nothing: list[HasFileno] = []
        read, written = (nothing, waited_for) if for_writing else (waited_for, nothing)
        return any(select.select(read, written, [], seconds))
    poll = select.poll()
    poll.register(connection, select.POLLOUT if for_writing else select.POLLIN)
    return bool(poll.poll(seconds * 1000))
