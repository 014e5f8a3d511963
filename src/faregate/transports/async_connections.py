"""Connections to the service on event loops: asyncio and trio."""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any, Self, cast

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from faregate.transports.connections import (
    ADDRESS_SECONDS,
    CHUNK,
    get_remaining,
    is_readable,
    make_ssl_context,
)
from faregate.transports.messages import (
    MalformedReply,
    NoReply,
    Origin,
    Reply,
    ReplyReader,
    RequestBytes,
)
from faregate.transports.pools import on_trio

MAX_SEEN_WHOLE = CHUNK // 2
"""Bytes of a reply up to which no unread byte can be hidden in a buffer of the stream (`can_start`)."""


class AsyncioConnection(asyncio.Protocol):
    """On asyncio, without the layers of its streams. Otherwise as `Connection`."""

    def __init__(self, origin: Origin, max_bytes: int) -> None:
        self.origin = origin
        self._reader = ReplyReader(max_bytes)
        self._waiter: asyncio.Future[Reply] | None = None
        self._transport: asyncio.Transport
        self._is_lost = False

    @classmethod
    async def open(cls, origin: Origin, moment: float, max_bytes: int) -> Self:
        """Connect, and encrypt where the origin says so, until `moment`."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(get_remaining(moment)):
            connected = await _aconnect_tcp(origin, moment)
            try:
                _, connection = await loop.create_connection(lambda: cls(origin, max_bytes), sock=connected)
            except BaseException:
                connected.close()
                raise
            if origin.is_tls:
                await connection._start_tls()  # noqa: SLF001 - its own
        return connection

    async def _start_tls(self) -> None:
        """Encrypt.

        In a step of its own: cut off inside `create_connection`, a handshake leaves its transport registered
        for a file number that the next connection gets.
        """
        plain, loop, context = self._transport, asyncio.get_running_loop(), make_ssl_context()
        try:
            if self._is_lost or plain.is_closing():
                raise NoReply("the service closed the connection before the handshake of TLS")
            encrypted = await loop.start_tls(plain, self, context, server_hostname=self.origin.host)
            if encrypted is None:
                raise NoReply("the service closed the connection in the handshake of TLS")
        except BaseException:
            plain.abort()
            raise
        self._transport = encrypted

    async def exchange(self, request: RequestBytes, moment: float) -> Reply:
        """Send a request and read its reply."""
        if self._is_lost or self._transport.is_closing():
            raise NoReply("the service closed the connection without a reply")
        loop = asyncio.get_running_loop()
        seconds = get_remaining(moment)
        self._reader.start()
        waiter: asyncio.Future[Reply] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_later(seconds, _expire, waiter)
        try:
            self._transport.write(request)
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._socket = cast(socket.socket, transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if self._waiter is None and data:
            self._is_lost = True
            self._transport.abort()  # sent without a request
            return
        try:
            self._reader.receive(data)
        except (MalformedReply, NoReply) as error:
            self._end_exchange(error)
        else:
            if self._reader.reply is not None:
                self._end_exchange(self._reader.reply)

    def eof_received(self) -> None:
        self._is_lost = True
        self.data_received(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        # uvloop may give an error that is not an OSError.
        self._end_exchange(exc if isinstance(exc, OSError) else NoReply("the connection was closed"))

    def _end_exchange(self, outcome: Reply | Exception) -> None:
        if self._waiter is None or self._waiter.done():
            return
        if isinstance(outcome, Exception):
            self._waiter.set_exception(outcome)
        else:
            self._waiter.set_result(outcome)

    def can_start(self) -> bool:
        """Whether this connection can carry another exchange."""
        return self._reader.can_start and not self._is_lost

    def is_stale(self) -> bool:
        """Whether the service closed it meanwhile, or sent data without a request."""
        return not self.can_start() or is_readable(self._socket)

    async def aclose(self) -> None:
        self._transport.abort()


class TrioConnection:
    """On trio, through anyio's streams. Otherwise as `Connection`."""

    def __init__(self, origin: Origin, stream: ByteStream, max_bytes: int) -> None:
        self.origin = origin
        self._stream = stream
        self._socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
        self._tls = stream.extra(TLSAttribute.ssl_object) if origin.is_tls else None  # noqa: S610
        self._reader = ReplyReader(max_bytes)
        self._received = 0

    @classmethod
    async def open(cls, origin: Origin, moment: float, max_bytes: int) -> Self:
        """Connect, and encrypt where the origin says so, until `moment`."""
        with anyio.fail_after(get_remaining(moment)):
            if not origin.is_tls:
                return cls(origin, await anyio.connect_tcp(origin.host, origin.port), max_bytes)
            try:
                encrypted = await anyio.connect_tcp(
                    origin.host, origin.port, ssl_context=make_ssl_context(), tls_standard_compatible=False
                )
            except (anyio.BrokenResourceError, anyio.EndOfStream) as error:
                raise ConnectionError("the service closed the connection in the handshake of TLS") from error
        return cls(origin, encrypted, max_bytes)

    async def exchange(self, request: RequestBytes, moment: float) -> Reply:
        """Send a request and read its reply."""
        self._received = 0
        self._reader.start()
        try:
            with anyio.fail_after(get_remaining(moment)):
                return await self._exchange(request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise ConnectionError(str(error.__cause__ or error)) from error

    async def _exchange(self, request: RequestBytes) -> Reply:
        # As in `Connection`: the reply may be there although the request could not be sent.
        with suppress(anyio.BrokenResourceError):
            await self._stream.send(request)
        while self._reader.reply is None:
            try:
                data = await self._stream.receive(CHUNK)
            except anyio.EndOfStream:
                data = b""
            self._received += len(data)
            self._reader.receive(data)
        return self._reader.reply

    def can_start(self) -> bool:
        """Whether this connection can carry another exchange.

        anyio may read more from the socket than it gives at once. The rest waits where it cannot be seen, so
        that a connection with a long reply is not used again.
        """
        return self._received <= MAX_SEEN_WHOLE and self._reader.can_start

    def is_stale(self) -> bool:
        """Whether the service closed it meanwhile, or sent data without a request."""
        return is_readable(self._socket) or (self._tls is not None and _has_unread(self._tls))

    async def aclose(self) -> None:
        with suppress(Exception):
            await anyio.aclose_forcefully(self._stream)


AsyncConnection = AsyncioConnection | TrioConnection


async def open_async(origin: Origin, moment: float, max_bytes: int) -> AsyncConnection:
    """Connect on the event loop that runs."""
    return await (TrioConnection if on_trio() else AsyncioConnection).open(origin, moment, max_bytes)


def _expire(waiter: asyncio.Future[Reply]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError("the deadline of the call is over"))


async def _aconnect_tcp(origin: Origin, moment: float) -> socket.socket:
    """Try one address at a time, as `_connect_tcp` does. uvloop cannot race them."""
    *others, last = dict.fromkeys((entry[0], entry[4]) for entry in await _resolve(origin))
    for family, address in others:
        with suppress(OSError):
            async with asyncio.timeout(min(ADDRESS_SECONDS, get_remaining(moment) / 2)):
                return await _aconnect_address(family, address)
    return await _aconnect_address(*last)


async def _resolve(origin: Origin) -> list[Any]:
    """Look up the addresses of a host; an address needs no thread that looks it up."""
    try:
        return socket.getaddrinfo(
            origin.host, origin.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)


async def _aconnect_address(family: int, address: Any) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return connecting


def _has_unread(tls: ssl.SSLObject) -> bool:
    """Whether more came than was asked for: anyio reads records ahead, and the socket has them no longer."""
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        return True
    return True
