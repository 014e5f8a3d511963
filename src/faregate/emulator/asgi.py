"""The emulator as an ASGI app: the service's API, the control plane and the console.

It also acts out how an answer travels: late, cut, reset, or never.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

import anyio

from faregate.core.models import Response, WireRequest
from faregate.emulator.delivery import CLOSING_EXTENSION, Delivery
from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Tenants
from faregate.rules.asgi import (
    App,
    Receive,
    Scope,
    Send,
    build_start,
    decode_headers,
    get_path,
    read_body,
    send_whole,
)

if TYPE_CHECKING:
    from faregate.emulator.state_file import StateFile

CONTROL: Final = "/_emulator"
"""Where the control plane is; never below the API's own prefix."""
SILENCE_SECONDS: Final = 600
_LOOK_SECONDS: Final = 0.1
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing sends a reset."""


def app(emulator: Emulator | Tenants, *, control: bool = True, state: "StateFile | None" = None) -> App:
    """Build the ASGI app, to be served or mounted under any path.

    Without `control` it is only the service's API. `state` has begun; it is kept while the app's lifespan
    lasts.
    """
    tenants = Tenants(emulator) if isinstance(emulator, Emulator) else emulator
    serve = build_api(tenants)
    beside = _build_control(tenants) if control else serve

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            with _track_changes(scope, state):
                await (beside if _is_control(scope) else serve)(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _run_lifespan(receive, send, tenants, state)

    return dispatch


def _build_control(tenants: Tenants) -> App:
    # Imported here because most tests have no use for it: it doubles the time that the import takes.
    from faregate.emulator.console.app import build_console_routes
    from faregate.emulator.control import build_control_plane

    return build_control_plane(tenants, build_console_routes())


def _is_control(scope: Scope) -> bool:
    # In ASGI, the path of a mounted application begins with its `root_path`.
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path in ("", "/", CONTROL) or path.startswith(f"{CONTROL}/")


def _track_changes(scope: Scope, state: "StateFile | None") -> AbstractContextManager[None]:
    """Mark the state as changing. Every call to the service may change it, even a read; a GET of the control
    plane does not.
    """
    if state is None or (_is_control(scope) and scope["method"] in ("GET", "HEAD")):
        return nullcontext()
    return state.changing()


async def _run_lifespan(receive: Receive, send: Send, tenants: Tenants, state: "StateFile | None") -> None:
    await receive()
    async with anyio.create_task_group() as tasks:
        if state is not None:
            tasks.start_soon(state.keep, tenants)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        tasks.cancel_scope.cancel()
    if state is not None:
        state.end(tenants)
    await send({"type": "lifespan.shutdown.complete"})


class ConnectionNotBreakable(Exception):
    """The server's connections cannot be broken from here. Raised into the server, which drops this one."""


def build_api(emulator: Emulator | Tenants) -> App:
    """Build the ASGI app of the service's own paths, to be mounted under any path."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        if body is not None:
            request = WireRequest(scope["method"], get_path(scope), decode_headers(scope["headers"]), body)
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
            # Before the wait: under another server than uvicorn, this raises.
            connection = _get_connection(send)
            await _delay(SILENCE_SECONDS, scope, receive)
            await _reset(connection, receive)
        case "reset":
            await _reset(_get_connection(send), receive)


async def _delay(seconds: float, scope: Scope, receive: Receive) -> None:
    """Wait, but no longer than the client stays and the server runs."""
    closing: Callable[[], bool] = scope.get("extensions", {}).get(CLOSING_EXTENSION, lambda: False)
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(_watch_shutdown, closing, waiting.cancel_scope)
            await _wait_disconnect(receive)
            waiting.cancel_scope.cancel()


async def _watch_shutdown(over: Callable[[], bool], scope: anyio.CancelScope) -> None:
    while not over():
        await anyio.sleep(_LOOK_SECONDS)
    scope.cancel()


async def _send_truncated(response: Response, send: Send) -> None:
    await send(build_start(response))
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
    transport: asyncio.Transport | None = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is None:
        raise ConnectionNotBreakable(
            "only uvicorn can act out silence, a reset or a cut: use serve(emulator)"
        )
    return transport


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
