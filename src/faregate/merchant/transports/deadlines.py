"""A total deadline for httpcore, without helper threads, sync and async.

httpcore hands the timeouts of a request to its network backend untouched, one per connect, read and
write; a peer that drips bytes resets such a timeout for ever. So what we put there is not a duration
but the moment of the deadline (`time.monotonic`), and the streams here make the rest of it.
"""

import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, cast

import httpcore

SLICE = 16 * 1024
ADDRESS_SECONDS = 2.0
"""How long one address of several is waited for: long enough for one lost packet to be sent again."""


def build_timeouts(moment: float, seconds: float) -> dict[str, Any]:
    """The httpcore request extension for a deadline at `moment`; the pool itself counts in seconds."""
    return {"timeout": {"connect": moment, "read": moment, "write": moment, "pool": seconds}}


def get_remaining(moment: float | None) -> float | None:
    """Seconds until `moment`. Raises httpcore's timeout when there are none."""
    if moment is None:
        return None
    left = moment - monotonic()
    if left <= 0:
        raise httpcore.TimeoutException("the deadline of the call is over")
    return left


def get_share(moment: float | None) -> float:
    """Seconds for an address that is not the host's last: part of the rest, so that others are tried."""
    left = get_remaining(moment)
    return ADDRESS_SECONDS if left is None else min(ADDRESS_SECONDS, left / 2)


class DeadlineStream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, get_remaining(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # The inner stream gives every partial send the whole rest: hand it little at a time.
        for start in range(0, len(buffer), SLICE):
            self._inner.write(buffer[start : start + SLICE], get_remaining(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return DeadlineStream(self._inner.start_tls(ssl_context, server_hostname, get_remaining(timeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class DeadlineBackend(httpcore.NetworkBackend):
    """Blocking. Looking up a host name is the one thing the system does not let us cut short."""

    def __init__(self) -> None:
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        # One address at a time: given the host, the system would give each of them the whole rest.
        *others, last = _addresses(host, port)
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return self._connect(address, port, get_share(timeout), local_address, socket_options)
        return self._connect(last, port, get_remaining(timeout), local_address, socket_options)

    def _connect(
        self,
        address: str,
        port: int,
        seconds: float | None,
        local_address: str | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.NetworkStream:
        return DeadlineStream(self._inner.connect_tcp(address, port, seconds, local_address, socket_options))


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class AsyncDeadlineStream(httpcore.AsyncNetworkStream):
    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, get_remaining(timeout))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, get_remaining(timeout))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return AsyncDeadlineStream(
            await self._inner.start_tls(ssl_context, server_hostname, get_remaining(timeout))
        )

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class AsyncDeadlineBackend(httpcore.AsyncNetworkBackend):
    """Awaiting, on asyncio and trio. anyio goes on to the next address after a quarter of a second."""

    def __init__(self) -> None:
        # httpcore declares a stand-in of another type for when anyio is missing.
        self._inner = cast(httpcore.AsyncNetworkBackend, httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return AsyncDeadlineStream(
            await self._inner.connect_tcp(host, port, get_remaining(timeout), local_address, socket_options)
        )
