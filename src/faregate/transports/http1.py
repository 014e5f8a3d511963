"""The built-in transport: HTTP/1.1 over sockets (sync), asyncio and trio, parsed by httptools.

It leaves out by construction what must not happen: redirects, cookies, proxies, netrc, a second try.
"""

from time import monotonic
from typing import TYPE_CHECKING

from faregate.core.models import Headers, Response
from faregate.errors import ServiceError
from faregate.transports.base import (
    KEEP_ALIVE_SECONDS,
    MAX_REPLY_BYTES,
    build_bad_answer,
    build_no_answer,
    build_response,
)
from faregate.transports.connections import HttpConnection
from faregate.transports.messages import (
    MalformedReply,
    Origin,
    Reply,
    RequestBytes,
    UnwritableRequest,
    encode_request,
    find_origin,
)
from faregate.transports.pools import IdleStack, PerLoop, PerProcess

if TYPE_CHECKING:
    # Modules for event loops are imported where they are used: a blocking process needs 50 modules less.
    from faregate.transports.async_connections import AsyncConnection

# UnicodeError: a host name that cannot be one.
_FAILURES = (
    MalformedReply,
    UnwritableRequest,
    OSError,
    UnicodeError,
)


class Http1Transport:
    """Blocking `send` and awaiting `asend`. A connection is used by one call at a time, the latest first."""

    def __init__(self, max_reply_bytes: int = MAX_REPLY_BYTES) -> None:
        self._max_bytes = max_reply_bytes
        self._idle = PerProcess(lambda: IdleStack[HttpConnection](KEEP_ALIVE_SECONDS), _close_all)
        self._async_idle = PerLoop(lambda: IdleStack["AsyncConnection"](KEEP_ALIVE_SECONDS), _aclose_all)

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        try:
            request = encode_request(method, url, headers, body)
            reply = self._exchange(find_origin(url), request, monotonic() + seconds)
        except _FAILURES as error:
            failure = _map_error(method, url, error)
        else:
            return build_response(*reply, self._max_bytes)
        # Out here the error has no context: the frames inside hold the headers in plain sight.
        raise failure

    def _exchange(self, origin: Origin, request: RequestBytes, moment: float) -> Reply:
        idle = self._idle.get()
        connection = idle.take(origin) or HttpConnection(origin, moment, self._max_bytes)
        try:
            reply = connection.exchange(request, moment)
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
            request = encode_request(method, url, headers, body)
            reply = await self._aexchange(find_origin(url), request, monotonic() + seconds)
        except _FAILURES as error:
            failure = _map_error(method, url, error)
        else:
            return build_response(*reply, self._max_bytes)
        raise failure

    async def _aexchange(self, origin: Origin, request: RequestBytes, moment: float) -> Reply:
        from faregate.transports.async_connections import open_async

        idle = await self._async_idle.get()
        connection = idle.take(origin) or await open_async(origin, moment, self._max_bytes)
        try:
            reply = await connection.exchange(request, moment)
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


def _close_unused(idle: IdleStack[HttpConnection]) -> None:
    while (connection := idle.pop_unused()) is not None:
        connection.close()


async def _aclose_unused(idle: "IdleStack[AsyncConnection]") -> None:
    while (connection := idle.pop_unused()) is not None:
        await connection.aclose()


def _close_all(idle: IdleStack[HttpConnection]) -> None:
    idle.mark_closed()
    _close_unused(idle)


async def _aclose_all(idle: "IdleStack[AsyncConnection]") -> None:
    from anyio.lowlevel import checkpoint

    idle.mark_closed()
    await _aclose_unused(idle)
    await checkpoint()  # asyncio closes a socket in its next turn


def _map_error(method: str, url: str, error: Exception) -> ServiceError:
    """Bytes that are not HTTP, or too few, are a bad answer; everything else is none."""
    if isinstance(error, MalformedReply):
        return build_bad_answer(method, url, str(error))
    return build_no_answer(method, url, f"{type(error).__name__}: {error.__cause__ or error}")
