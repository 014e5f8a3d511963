"""The service's API as an ASGI app, which also acts out how an answer travels: late, cut, reset, or never."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import quote

import anyio

from faregate.core.models import Response, WireRequest
from faregate.emulator.delivery import Delivery, decode_headers
from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Tenants
from faregate.service.http import MAX_BODY

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
SILENCE_SECONDS: Final = 600
_LOOK_SECONDS: Final = 0.1
IS_CLOSING: Final = "faregate.closing"
"""An extension of the scope by `server.py`: whether it is about to end, as a function."""
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing sends a reset."""


class ConnectionNotBreakable(Exception):
    """The server's connections cannot be broken from here. Raised into the server, which drops this one."""


def build_api(emulator: Emulator | Tenants) -> App:
    """Build the ASGI app of the service's own paths, to be mounted under any path."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        body = await _read_body(receive)
        if body is not None:
            request = WireRequest(scope["method"], _get_path(scope), decode_headers(scope["headers"]), body)
            await _transmit(emulator.deliver(request), scope, receive, send)

    return serve


async def _transmit(delivery: Delivery, scope: Scope, receive: Receive, send: Send) -> None:
    if delivery.delay:
        await _delay(delivery.delay, scope, receive)
    match delivery.ending:
        case "whole":
            await send_whole(delivery.response, send)
        case "cut":
            # uvicorn would complain about a short body, so the connection is closed under it.
            await _send_truncated(delivery.response, send)
            _get_connection(send).close()
            await _wait_disconnect(receive)
        case "silence":
            connection = _get_connection(send)
            await _delay(SILENCE_SECONDS, scope, receive)
            await _reset(connection, receive)
        case "reset":
            await _reset(_get_connection(send), receive)


async def _delay(seconds: float, scope: Scope, receive: Receive) -> None:
    """Wait, but no longer than the client stays and the server runs."""
    closing: Callable[[], bool] = scope.get("extensions", {}).get(IS_CLOSING, lambda: False)
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(_watch_shutdown, closing, waiting.cancel_scope)
            await _wait_disconnect(receive)
            waiting.cancel_scope.cancel()


async def _watch_shutdown(over: Callable[[], bool], scope: anyio.CancelScope) -> None:
    while not over():
        await anyio.sleep(_LOOK_SECONDS)
    scope.cancel()


async def send_whole(response: Response, send: Send) -> None:
    await send(_build_start(response))
    await send({"type": "http.response.body", "body": response.body})


async def _send_truncated(response: Response, send: Send) -> None:
    await send(_build_start(response))
    half = response.body[: len(response.body) // 2]
    await send({"type": "http.response.body", "body": half, "more_body": True})


async def _reset(connection: asyncio.Transport, receive: Receive) -> None:
    if not connection.is_closing():
        # Without SO_LINGER the client would see an orderly end (FIN), not a reset (RST).
        peer: socket.socket = connection.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.abort()
        await _wait_disconnect(receive)


def _get_connection(send: Send) -> asyncio.Transport:
    """Return uvicorn's transport of this connection; `ConnectionNotBreakable` under any other server."""
    found: asyncio.Transport | None = getattr(getattr(send, "__self__", None), "transport", None)
    if found is None:
        raise ConnectionNotBreakable(
            "only uvicorn can act out silence, a reset or a cut: use serve(emulator)"
        )
    return found


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _build_start(response: Response) -> Message:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    length = (b"content-length", str(len(response.body)).encode("ascii"))
    return {"type": "http.response.start", "status": response.status, "headers": [*headers, length]}


async def _read_body(receive: Receive) -> bytes | None:
    """Read the body, no further than the service would; None if the client disconnected."""
    parts: list[bytes] = []
    size = 0
    # One chunk more than the limit is enough for the service to refuse the body.
    while size <= MAX_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part: bytes = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if not message.get("more_body", False):
            break
    return b"".join(parts)


def _get_path(scope: Scope) -> str:
    """Return the path below the mount, still percent-encoded, with its query."""
    raw: bytes | None = scope.get("raw_path")
    path = quote(scope["path"]) if raw is None else raw.decode("latin-1")
    root = scope.get("root_path")
    if root:
        path = path.removeprefix(quote(root))
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path
