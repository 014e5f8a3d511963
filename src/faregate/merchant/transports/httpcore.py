"""The transport that is always there: httpx's own connection pool, httpcore, without httpx's models.

Sync, asyncio and trio. Driving httpcore directly costs less than an httpx client (docs/client.md),
takes a total deadline (`deadlines`), and leaves out by construction what must not happen: redirects,
cookies, proxies, netrc.
"""

import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from time import monotonic
from typing import Any

import httpcore

from faregate.core.models import Headers, Response
from faregate.errors import ServiceError
from faregate.merchant.transports.base import (
    KEEP_ALIVE_SECONDS,
    MAX_REPLY_BYTES,
    build_bad_answer,
    build_no_answer,
    build_response,
)
from faregate.merchant.transports.deadlines import AsyncDeadlineBackend, DeadlineBackend, build_timeouts
from faregate.merchant.transports.pools import PerLoop, PerProcess, PoolStack

_FAILURES = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    OSError,
)


@cache
def _make_ssl_context() -> ssl.SSLContext:
    """Verification as httpx does it: certifi, or what `SSL_CERT_FILE` names. Made once, it is dear."""
    import httpx

    return httpx.create_ssl_context()


def _make_pool() -> httpcore.ConnectionPool:
    return httpcore.ConnectionPool(
        ssl_context=_make_ssl_context(),
        max_connections=1,
        keepalive_expiry=KEEP_ALIVE_SECONDS,
        network_backend=DeadlineBackend(),
    )


def _make_async_pool() -> httpcore.AsyncConnectionPool:
    return httpcore.AsyncConnectionPool(
        ssl_context=_make_ssl_context(),
        max_connections=1,
        keepalive_expiry=KEEP_ALIVE_SECONDS,
        network_backend=AsyncDeadlineBackend(),
    )


@contextmanager
def _borrow(pools: PoolStack[httpcore.ConnectionPool]) -> Generator[httpcore.ConnectionPool]:
    pool = pools.take()
    try:
        yield pool
    except BaseException:
        _close(pool)
        raise
    pools.put(pool)
    _close_unused(pools)


@asynccontextmanager
async def _aborrow(
    pools: PoolStack[httpcore.AsyncConnectionPool],
) -> AsyncGenerator[httpcore.AsyncConnectionPool]:
    pool = pools.take()
    try:
        yield pool
    except BaseException:
        # Cancelled at a certain step, a connection of httpcore is neither closed nor ever free again.
        await _aclose(pool)
        raise
    pools.put(pool)
    await _aclose_unused(pools)


def _close(pool: httpcore.ConnectionPool) -> None:
    # What fails here is no failure of the call that happens to close the pool.
    with suppress(Exception):
        pool.close()


async def _aclose(pool: httpcore.AsyncConnectionPool) -> None:
    with suppress(Exception):
        await pool.aclose()


def _close_unused(pools: PoolStack[httpcore.ConnectionPool]) -> None:
    while (pool := pools.pop_unused()) is not None:
        _close(pool)


async def _aclose_unused(pools: PoolStack[httpcore.AsyncConnectionPool]) -> None:
    while (pool := pools.pop_unused()) is not None:
        await _aclose(pool)


def _close_all(pools: PoolStack[httpcore.ConnectionPool]) -> None:
    pools.mark_closed()
    _close_unused(pools)


async def _aclose_all(pools: PoolStack[httpcore.AsyncConnectionPool]) -> None:
    pools.mark_closed()
    await _aclose_unused(pools)


class HttpcoreTransport:
    """Blocking `send` and awaiting `asend` over httpcore's pools."""

    def __init__(self) -> None:
        self._pools = PerProcess(lambda: PoolStack(_make_pool, KEEP_ALIVE_SECONDS), _close_all)
        self._async_pools = PerLoop(lambda: PoolStack(_make_async_pool, KEEP_ALIVE_SECONDS), _aclose_all)

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        try:
            reply = self._exchange(method, url, headers, body, seconds)
        except _FAILURES as error:
            failure = _map_error(method, url, error)
        else:
            return build_response(*reply)
        # Out here the error has no context: httpcore's frames hold the headers in plain sight.
        raise failure

    def _exchange(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> tuple[int, Headers, bytes]:
        extensions = build_timeouts(monotonic() + seconds, seconds)
        with (
            _borrow(self._pools.get()) as pool,
            pool.stream(
                method, url, headers=_encode_headers(headers), content=body, extensions=extensions
            ) as response,
        ):
            came = bytearray()
            for chunk in response.iter_stream():
                came += chunk
                if len(came) > MAX_REPLY_BYTES:
                    break
            if (connection := _spoilt(response)) is not None:
                connection.close()
        return response.status, _decode_headers(response), bytes(came)

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        try:
            reply = await self._aexchange(method, url, headers, body, seconds)
        except _FAILURES as error:
            failure = _map_error(method, url, error)
        else:
            return build_response(*reply)
        raise failure

    async def _aexchange(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> tuple[int, Headers, bytes]:
        extensions = build_timeouts(monotonic() + seconds, seconds)
        async with (
            _aborrow(await self._async_pools.get()) as pool,
            pool.stream(
                method, url, headers=_encode_headers(headers), content=body, extensions=extensions
            ) as response,
        ):
            came = bytearray()
            try:
                async for chunk in response.aiter_stream():
                    came += chunk
                    if len(came) > MAX_REPLY_BYTES:
                        # Not `break`: that leaves httpcore's generators half way, of which trio warns.
                        await response.aclose()
            except httpcore.NetworkError:
                if len(came) <= MAX_REPLY_BYTES:
                    raise
            if (connection := _spoilt(response)) is not None:
                await connection.aclose()
        return response.status, _decode_headers(response), bytes(came)

    def close(self) -> None:
        self._pools.close()

    async def aclose(self) -> None:
        await self._async_pools.close()


def _spoilt(response: httpcore.Response) -> Any:
    """The connection, if more came on it than this reply: httpcore would read the rest as the next one's."""
    connection = getattr(getattr(response.stream, "_stream", None), "_connection", None)
    state = getattr(connection, "_h11_state", None)
    return connection if state is not None and state.trailing_data[0] else None


def _encode_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]


def _decode_headers(response: httpcore.Response) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers)


def _map_error(method: str, url: str, error: Exception) -> ServiceError:
    """Bytes that are not HTTP, or too few, are a bad answer; everything else is none."""
    if isinstance(error, httpcore.RemoteProtocolError) and not _is_silent_close(error):
        return build_bad_answer(method, url, str(error))
    if isinstance(error, httpcore.LocalProtocolError):
        return build_no_answer(method, url, "the request could not be written")
    return build_no_answer(method, url, f"{type(error).__name__}: {error}")


def _is_silent_close(error: httpcore.RemoteProtocolError) -> bool:
    # httpcore itself speaks in words when the peer left before the reply; the rest wraps h11's error.
    return bool(error.args) and isinstance(error.args[0], str)
