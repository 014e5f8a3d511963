"""Connections to the service, blocking and awaiting."""

import os
import select
import socket
import ssl
from contextlib import suppress
from functools import cache
from time import monotonic
from typing import Protocol, Self

import anyio
import certifi
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from faregate.core.models import Headers
from faregate.merchant.transports.exchange import Exchange, Origin, Reply

CHUNK = 64 * 1024
ADDRESS_SECONDS = 2.0
"""How long one address of several is waited for: long enough for one lost packet to be sent again."""
MAX_SEEN_WHOLE = CHUNK // 2
"""Bytes of a reply up to which nothing that came with it can be where nobody looks (`start_next`)."""


@cache
def make_ssl_context() -> ssl.SSLContext:
    """Trust certifi, or what `SSL_CERT_FILE` or `SSL_CERT_DIR` names, as httpx does. Slow to make."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or not folder:
        context = ssl.create_default_context(cafile=file or certifi.where())
    else:
        context = ssl.create_default_context(capath=folder)
    context.set_alpn_protocols(["http/1.1"])
    return context


class Connection:
    """Blocking. After an error in `exchange` it can only be closed.

    The timeout of a socket is for one read, and a peer that drips bytes resets it for ever. So each step
    here is given what is left until `moment`, the deadline of the call (`time.monotonic`).
    """

    def __init__(self, origin: Origin, moment: float) -> None:
        self.origin = origin
        self._socket = _connect(origin, moment)
        self._exchange = Exchange()

    def exchange(self, method: str, url: str, headers: Headers, body: bytes | None, moment: float) -> Reply:
        """Send a request and read its reply."""
        rest = memoryview(self._exchange.write_request(method, url, headers, body))
        # A service may refuse a request, and close, before it has read all of it: its reply is there.
        with suppress(ConnectionError):
            while rest:
                self._socket.settimeout(get_remaining(moment))
                rest = rest[self._socket.send(rest) :]
        while (reply := self._exchange.read_reply()) is None:
            self._socket.settimeout(get_remaining(moment))
            self._exchange.receive(self._socket.recv(CHUNK))
        return reply

    def start_next(self) -> bool:
        """Make ready for another request. False if this connection can carry none."""
        return self._exchange.start_next()

    def is_stale(self) -> bool:
        """Whether the service closed it meanwhile, or sent what nobody asked for."""
        return _is_readable(self._socket)

    def close(self) -> None:
        # What fails here is no failure of the call that happens to close the connection.
        with suppress(OSError):
            self._socket.close()


class AsyncConnection:
    """On asyncio and trio, within a deadline of the caller. Otherwise as `Connection`."""

    def __init__(self, origin: Origin, stream: ByteStream) -> None:
        self.origin = origin
        self._stream = stream
        self._socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
        self._tls = stream.extra(TLSAttribute.ssl_object) if origin.is_tls else None  # noqa: S610
        self._exchange = Exchange()
        self._received = 0

    @classmethod
    async def open(cls, origin: Origin) -> Self:
        """Connect. anyio goes on to the next address of the host after a quarter of a second."""
        if origin.is_tls:
            return cls(
                origin,
                await anyio.connect_tcp(
                    origin.host, origin.port, ssl_context=make_ssl_context(), tls_standard_compatible=False
                ),
            )
        return cls(origin, await anyio.connect_tcp(origin.host, origin.port))

    async def exchange(self, method: str, url: str, headers: Headers, body: bytes | None) -> Reply:
        """Send a request and read its reply."""
        # As in `Connection`: the reply may be there although the request could not be sent.
        self._received = 0
        with suppress(anyio.BrokenResourceError):
            await self._stream.send(self._exchange.write_request(method, url, headers, body))
        while (reply := self._exchange.read_reply()) is None:
            try:
                data = await self._stream.receive(CHUNK)
            except anyio.EndOfStream:
                data = b""
            self._received += len(data)
            self._exchange.receive(data)
        return reply

    def start_next(self) -> bool:
        """Make ready for another request. False if this connection can carry none.

        asyncio may read four times as much from the socket as anyio gives at once. The rest waits where it
        cannot be seen, so that a connection with a long reply is not used again.
        """
        return self._received <= MAX_SEEN_WHOLE and self._exchange.start_next()

    def is_stale(self) -> bool:
        """Whether the service closed it meanwhile, or sent what nobody asked for."""
        return _is_readable(self._socket) or (self._tls is not None and _has_unread(self._tls))

    async def aclose(self) -> None:
        with suppress(Exception):
            await anyio.aclose_forcefully(self._stream)


def get_remaining(moment: float) -> float:
    """Seconds until `moment`. Raises `TimeoutError` when there are none."""
    left = moment - monotonic()
    if left <= 0:
        raise TimeoutError("the deadline of the call is over")
    return left


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
    found = socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    *others, last = dict.fromkeys(str(entry[4][0]) for entry in found)
    for address in others:
        with suppress(OSError):
            seconds = min(ADDRESS_SECONDS, get_remaining(moment) / 2)
            return socket.create_connection((address, origin.port), seconds)
    return socket.create_connection((last, origin.port), get_remaining(moment))


class _HasFileno(Protocol):
    def fileno(self) -> int: ...


def _is_readable(one: _HasFileno) -> bool:
    if one.fileno() < 0:
        return True
    if not hasattr(select, "poll"):
        # Windows, and under gevent.
        return bool(select.select([one], [], [], 0)[0])
    poll = select.poll()
    poll.register(one, select.POLLIN)
    return bool(poll.poll(0))


def _has_unread(tls: ssl.SSLObject) -> bool:
    """Whether more came than was asked for: anyio reads records ahead, and the socket has them no longer."""
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        return True
    return True
