"""Any httpx transport as ours: in-process mounts, `httpx.MockTransport`, or one with a private CA.

Only `handle_request` is used, never an httpx client, so an environment, a redirect or a cookie jar plays
no part. The deadline is whole when awaiting; when blocking it is looked at between the pieces of the body.
"""

from collections.abc import AsyncIterable, Iterable
from time import monotonic
from typing import Any, cast

import anyio
import httpx

from faregate.core.models import Headers, Response
from faregate.errors import ConfigurationError, ServiceError
from faregate.transports.base import (
    MAX_REPLY_BYTES,
    build_bad_answer,
    build_no_answer,
    build_response,
)

MAX_CALLS = 50
"""Calls of one kind at once (`limits`): the two kinds together are what httpx's own pool lets through."""

_FAILURES = (httpx.HTTPError, TimeoutError)


class HttpxTransport:
    """Blocking over a `httpx.BaseTransport`, awaiting over a `httpx.AsyncBaseTransport`, or both."""

    def __init__(
        self,
        mount: httpx.BaseTransport | httpx.AsyncBaseTransport,
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        self._mount = mount
        self._max_bytes = max_reply_bytes

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        if not isinstance(self._mount, httpx.BaseTransport):
            raise ConfigurationError("This httpx transport is async: it serves an AsyncMerchantClient only.")
        try:
            reply = _exchange(
                self._mount, _request(method, url, headers, body, seconds), seconds, self._max_bytes
            )
        except _FAILURES as error:
            failure = _map_error(method, url, error)
        else:
            return build_response(*reply, self._max_bytes)
        # Raise outside of `except`, as in `http1`: the frames of the original error hold the key.
        raise failure

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        if not isinstance(self._mount, httpx.AsyncBaseTransport):
            raise ConfigurationError("This httpx transport is blocking: it serves a MerchantClient only.")
        try:
            with anyio.fail_after(seconds):
                reply = await _aexchange(
                    self._mount, _request(method, url, headers, body, seconds), self._max_bytes
                )
        except _FAILURES as error:
            failure = _map_error(method, url, error)
        else:
            return build_response(*reply, self._max_bytes)
        raise failure

    def close(self) -> None:
        if isinstance(self._mount, httpx.BaseTransport):
            self._mount.close()

    async def aclose(self) -> None:
        if isinstance(self._mount, httpx.AsyncBaseTransport):
            await self._mount.aclose()


def _request(method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> httpx.Request:
    # Only these time-outs interrupt a blocking transport that waits for a byte.
    each = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
    extensions: dict[str, Any] = {"timeout": each}
    return httpx.Request(method, url, headers=list(headers), content=body, extensions=extensions)


def _exchange(
    mount: httpx.BaseTransport, request: httpx.Request, seconds: float, max_bytes: int
) -> tuple[int, Headers, bytes]:
    moment = monotonic() + seconds
    response = mount.handle_request(request)
    try:
        came = bytearray()
        # The stream itself, not `iter_raw`: a mount may have read its response already.
        for chunk in cast(Iterable[bytes], response.stream):
            if monotonic() > moment:
                raise TimeoutError("the deadline of the call is over")
            came += chunk
            if len(came) > max_bytes:
                break
    finally:
        response.close()
    return response.status_code, _decode_headers(response), bytes(came)


async def _aexchange(
    mount: httpx.AsyncBaseTransport, request: httpx.Request, max_bytes: int
) -> tuple[int, Headers, bytes]:
    response = await mount.handle_async_request(request)
    try:
        came = bytearray()
        async for chunk in cast(AsyncIterable[bytes], response.stream):
            came += chunk
            if len(came) > max_bytes:
                break
    finally:
        await response.aclose()
    return response.status_code, _decode_headers(response), bytes(came)


def _decode_headers(response: httpx.Response) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw)


def _map_error(method: str, url: str, error: Exception) -> ServiceError:
    reason = f"{type(error).__name__}: {error}"
    # httpx raises the same error for a connection closed without a reply and for a broken reply.
    broken = isinstance(error, httpx.RemoteProtocolError) and "without sending a response" not in reason
    return (build_bad_answer if broken else build_no_answer)(method, url, reason)
