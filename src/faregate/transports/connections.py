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

    The timeout of a socket is for one read, and a peer that drips bytes resets it for ever. So each step
    here is given what is left until `moment`, the deadline of the call (`time.monotonic`).
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
                self._socket.settimeout(get_remaining(moment))
                rest = rest[self._socket.send(rest) :]
        except ConnectionError:
            pass
        while self._reader.reply is None:
            self._socket.settimeout(get_remaining(moment))
            self._reader.receive(self._socket.recv(CHUNK))
        return self._reader.reply

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
        if not origin.is_tls:
            return connected
        connected.settimeout(get_remaining(moment))
        return make_ssl_context().wrap_socket(connected, server_hostname=origin.host)
    except BaseException:
        connected.close()
        raise


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
    if connection.fileno() < 0:
        return True
    if not hasattr(select, "poll"):
        # Windows, and under gevent.
        return bool(select.select([connection], [], [], 0)[0])
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
