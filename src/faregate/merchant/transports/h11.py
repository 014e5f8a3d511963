"""The transport that is always there: HTTP/1.1 by h11, over sockets (sync) and anyio (asyncio, trio).

It leaves out by construction what must not happen: redirects, cookies, proxies, netrc, a second try.
"""

from time import monotonic

import anyio
import h11

from faregate.core.models import Headers, Response
from faregate.errors import ServiceError
from faregate.merchant.transports.base import (
    KEEP_ALIVE_SECONDS,
    build_bad_answer,
    build_no_answer,
    build_response,
)
from faregate.merchant.transports.connections import AsyncConnection, Connection
from faregate.merchant.transports.exchange import Reply, find_origin
from faregate.merchant.transports.pools import IdleStack, PerLoop, PerProcess

# UnicodeError: a host name that cannot be one.
_FAILURES = (
    h11.ProtocolError,
    OSError,
    UnicodeError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
)


class H11Transport:
    """Blocking `send` and awaiting `asend`. A connection is used by one call at a time, the latest first."""

    def __init__(self) -> None:
        self._idle = PerProcess(lambda: IdleStack[Connection](KEEP_ALIVE_SECONDS), _close_all)
        self._async_idle = PerLoop(lambda: IdleStack[AsyncConnection](KEEP_ALIVE_SECONDS), _aclose_all)

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        try:
            reply = self._exchange(method, url, headers, body, monotonic() + seconds)
        except _FAILURES as error:
            failure = _map_error(method, url, error)
        else:
            return build_response(*reply)
        # Out here the error has no context: the frames inside hold the headers in plain sight.
        raise failure

    def _exchange(self, method: str, url: str, headers: Headers, body: bytes | None, moment: float) -> Reply:
        idle, origin = self._idle.get(), find_origin(url)
        connection = idle.take(origin) or Connection(origin, moment)
        try:
            reply = connection.exchange(method, url, headers, body, moment)
        except BaseException:
            connection.close()
            raise
        idle.put(connection)
        _close_unused(idle)
        return reply

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        try:
            with anyio.fail_after(seconds):
                reply = await self._aexchange(method, url, headers, body)
        except _FAILURES as error:
            failure = _map_error(method, url, error)
        else:
            return build_response(*reply)
        raise failure

    async def _aexchange(self, method: str, url: str, headers: Headers, body: bytes | None) -> Reply:
        idle, origin = await self._async_idle.get(), find_origin(url)
        connection = idle.take(origin) or await AsyncConnection.open(origin)
        try:
            reply = await connection.exchange(method, url, headers, body)
        except BaseException:
            await connection.aclose()
            raise
        idle.put(connection)
        await _aclose_unused(idle)
        return reply

    def close(self) -> None:
        self._idle.close()

    async def aclose(self) -> None:
        await self._async_idle.close()


def _close_unused(idle: IdleStack[Connection]) -> None:
    while (connection := idle.pop_unused()) is not None:
        connection.close()


async def _aclose_unused(idle: IdleStack[AsyncConnection]) -> None:
    while (connection := idle.pop_unused()) is not None:
        await connection.aclose()


def _close_all(idle: IdleStack[Connection]) -> None:
    idle.mark_closed()
    _close_unused(idle)


async def _aclose_all(idle: IdleStack[AsyncConnection]) -> None:
    idle.mark_closed()
    await _aclose_unused(idle)


def _map_error(method: str, url: str, error: Exception) -> ServiceError:
    """Bytes that are not HTTP, or too few, are a bad answer; everything else is none."""
    if isinstance(error, h11.RemoteProtocolError):
        return build_bad_answer(method, url, str(error))
    if isinstance(error, h11.LocalProtocolError):
        # h11's words repeat what it found wrong, which may be the key.
        return build_no_answer(method, url, "the request could not be written")
    return build_no_answer(method, url, f"{type(error).__name__}: {error.__cause__ or error}")
