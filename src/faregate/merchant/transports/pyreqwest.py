"""The fast transport (extra `fast`): pyreqwest, sync and async, asyncio only.

It runs on one thread of its own per process, started at the first call and shared by all. It refuses
to run in a child forked after that; `CannotRunHere` says so, and the automatic choice then takes h11.
"""

import asyncio
import atexit
from datetime import timedelta
from functools import cache
from time import sleep
from typing import TypeVar

import anyio.lowlevel
from pyreqwest.client import BaseClientBuilder, Client, ClientBuilder, SyncClient, SyncClientBuilder
from pyreqwest.exceptions import DecodeError, DetailedPyreqwestError, PyreqwestError
from pyreqwest.http import HeaderMap
from pyreqwest.request import BaseRequestBuilder

from faregate.core.models import Headers, Response
from faregate.errors import ServiceError
from faregate.merchant.transports.base import (
    IDLE_CONNECTIONS,
    KEEP_ALIVE_SECONDS,
    MAX_REPLY_BYTES,
    CannotRunHere,
    build_bad_answer,
    build_no_answer,
    build_response,
)
from faregate.merchant.transports.pools import PerLoop, PerProcess, on_trio

CONNECT_SECONDS = 5.0
"""How long connecting may take, TLS included. Divided among a host's addresses of one family: without
it, the first that says nothing would use up the deadline of the call."""

B = TypeVar("B", bound=BaseClientBuilder)
R = TypeVar("R", bound=BaseRequestBuilder)


def _configure(builder: B) -> B:
    """No proxy, redirect, cookie or decoding; connecting and idle connections for a short time."""
    return (
        builder.no_proxy()
        .follow_redirects(False)
        .referer(False)
        .default_cookie_store(False)
        .gzip(False)
        .brotli(False)
        .zstd(False)
        .deflate(False)
        .connect_timeout(timedelta(seconds=CONNECT_SECONDS))
        .pool_idle_timeout(timedelta(seconds=KEEP_ALIVE_SECONDS))
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
    )


def _make_client() -> SyncClient:
    try:
        return _configure(SyncClientBuilder()).build()
    except RuntimeError as error:
        raise _build_fork_error() from error


@cache
def _wait_at_exit() -> None:
    """Give pyreqwest's thread a moment before the interpreter ends.

    It wakes an event loop from its own thread and then needs the interpreter's lock once more; a process
    that ends within those 5 ms is aborted (`PyGILState_Release`, seen in 1 of 40 short scripts).
    """
    atexit.register(sleep, 0.01)


def _make_async_client() -> Client:
    if on_trio():
        raise CannotRunHere("pyreqwest needs asyncio: under trio, omit the transport or use 'h11'.")
    _wait_at_exit()
    try:
        return _configure(ClientBuilder()).build()
    except RuntimeError as error:
        raise _build_fork_error() from error


def _build_fork_error() -> CannotRunHere:
    return CannotRunHere(
        "pyreqwest was used before this process was forked, and cannot be used here: "
        "make the first call after the fork, omit the transport, or use 'h11'."
    )


class PyreqwestTransport:
    """Blocking `send` and awaiting `asend` over pyreqwest's clients."""

    def __init__(self) -> None:
        self._clients = PerProcess(_make_client, SyncClient.close)
        self._async_clients = PerLoop(_make_async_client, Client.close)

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        try:
            reply = self._exchange(method, url, headers, body, seconds)
        except PyreqwestError as error:
            failure = _map_error(method, url, error)
        else:
            return build_response(*reply)
        raise failure

    def _exchange(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> tuple[int, Headers, bytes]:
        request = self._clients.get().request(method, url).headers(headers)
        with _set_body(request, body, seconds).build_streamed() as response:
            # Gives less than it is asked for only at the end of the body.
            came = response.body_reader.read(MAX_REPLY_BYTES + 1)
            return response.status, _decode_headers(response.headers), bytes(came or b"")

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        client = await self._async_clients.get()
        requested = _cancel_requests()
        outcome: tuple[int, Headers, bytes] | ServiceError
        try:
            outcome = await _aexchange(client, method, url, headers, body, seconds)
        except PyreqwestError as error:
            outcome = _map_error(method, url, error)
        except asyncio.CancelledError:
            outcome = build_no_answer(method, url, "pyreqwest gave the call up")
        if _cancel_requests() > requested:
            await _raise_cancellation()
        if isinstance(outcome, ServiceError):
            raise outcome
        return build_response(*outcome)

    def close(self) -> None:
        self._clients.close()

    async def aclose(self) -> None:
        await self._async_clients.close()


async def _aexchange(
    client: Client, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
) -> tuple[int, Headers, bytes]:
    request = client.request(method, url).headers(headers)
    async with _set_body(request, body, seconds).build_streamed() as response:
        # Gives less than it is asked for only at the end of the body.
        came = await response.body_reader.read(MAX_REPLY_BYTES + 1)
        return response.status, _decode_headers(response.headers), bytes(came or b"")


def _cancel_requests() -> int:
    """How many cancellations of this task are under way."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def _raise_cancellation() -> None:
    """Raise the cancellation of this task in the form that its canceller expects.

    pyreqwest raises a `CancelledError` of its own instead of the one it was given, and a cancel scope lets
    out what is not its own. When the call ends at the same moment, it may not raise one at all.
    """
    await anyio.lowlevel.checkpoint_if_cancelled()
    raise asyncio.CancelledError


def _set_body(request: R, body: bytes | None, seconds: float) -> R:
    timed = request.timeout(timedelta(seconds=seconds))
    return timed if body is None else timed.body_bytes(body)


def _decode_headers(headers: HeaderMap) -> Headers:
    try:
        return tuple(headers.items())
    except ValueError:
        # pyreqwest cannot give values beyond ASCII: leave those out rather than lose the reply.
        return tuple((name, value) for name in headers for value in _readable(headers, name))


def _readable(headers: HeaderMap, name: str) -> list[str]:
    try:
        return headers.getall(name)
    except ValueError:
        return []


def _map_error(method: str, url: str, error: PyreqwestError) -> ServiceError:
    """Bytes that are not HTTP, or too few, are a bad answer; everything else is none."""
    causes = (error.details["causes"] or ()) if isinstance(error, DetailedPyreqwestError) else ()
    reason = causes[-1]["message"] if causes else error.message
    kind = build_bad_answer if isinstance(error, DecodeError) else build_no_answer
    return kind(method, url, f"{type(error).__name__}: {reason}")
