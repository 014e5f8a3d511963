"""Two mounts without a port: a Starlette app and an httpx transport, over the same `respond`."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from faregate.emulator.calls import MAX_BODY
from faregate.emulator.emulator import Emulator
from faregate.emulator.extra import extra_missing
from faregate.model import Headers, WireRequest

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response as StarletteResponse


class EmulatorTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """For `httpx.Client(transport=...)` and `httpx.AsyncClient(transport=...)` alike."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._respond(request, request.read())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self._respond(request, await request.aread())

    def _respond(self, request: httpx.Request, body: bytes) -> httpx.Response:
        path = request.url.raw_path.decode("ascii")
        reply = self._emulator.respond(WireRequest(request.method, path, _text(request.headers.raw), body))
        return httpx.Response(reply.status, headers=list(reply.headers), content=reply.body, request=request)


def transport(emulator: Emulator) -> EmulatorTransport:
    """An httpx transport, blocking and async: no port, no thread."""
    return EmulatorTransport(emulator)


def app(emulator: Emulator) -> "Starlette":
    """A Starlette app, to be served or mounted under any path."""
    try:
        from starlette.applications import Starlette
        from starlette.requests import ClientDisconnect, Request
        from starlette.routing import Mount
    except ModuleNotFoundError as error:
        raise extra_missing(error) from None

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        with suppress(ClientDisconnect):
            response = await _respond(emulator, Request(scope, receive))
            await response(scope, receive, send)

    return Starlette(routes=[Mount("/", app=serve)])


async def _respond(emulator: Emulator, request: "Request") -> "StarletteResponse":
    from starlette.responses import Response

    wire = WireRequest(
        request.method,
        _path(request.scope),
        _text(request.headers.raw),
        await _body(request),
    )
    reply = emulator.respond(wire)
    response = Response(reply.body, reply.status)
    for name, value in reply.headers:
        response.headers.append(name, value)
    return response


async def _body(request: "Request") -> bytes:
    """The body, read no further than the service would."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            break
    return b"".join(parts)


def _path(scope: Any) -> str:
    """The path below the mount, still percent-encoded, with its query."""
    raw: bytes | None = scope.get("raw_path")
    path = quote(scope["path"]) if raw is None else raw.decode("latin-1")
    path = path.removeprefix(quote(scope.get("root_path", "")))
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def _text(headers: list[tuple[bytes, bytes]]) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
