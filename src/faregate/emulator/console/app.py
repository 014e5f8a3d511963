"""`GET /_emulator/worlds/{name}/events`: a world as it changes, by server-sent events, for the console.

The first event of a connection is `whole`: all that a page shows. Those after it are `change`: the parts
that differ, with new and moved transactions and new calls. So a page that was away (`Last-Event-ID`) loses
nothing: it is given everything anew. `gone` is the last event of a world that was dropped.

One look at a world five times a second for each page; what is sent waits for the page to take it.
"""

import json
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from hashlib import sha256
from importlib.resources import files
from time import monotonic
from typing import Any, Final

import anyio
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from faregate.emulator.asgi import IS_CLOSING
from faregate.emulator.clock import EmulatorClock
from faregate.emulator.console.changes import ChangeTracker
from faregate.emulator.control.common import ControlError, get_emulator, get_tenants, parse_environment
from faregate.emulator.control.faults import describe_faults
from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Tenants

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def build_console_routes() -> list[Route]:
    """Build the routes of the page, its files and its event stream."""
    packed = [Middleware(GZipMiddleware)]
    return [
        Route("/_emulator/worlds/{name}/events", stream_events, methods=["GET"]),
        Route("/", get_page, methods=["GET"], middleware=packed),
        Route("/_emulator/console/{file}", get_file, methods=["GET"], middleware=packed),
    ]


async def get_page(request: Request) -> Response:
    return _serve_file(request, "page.html")


async def get_file(request: Request) -> Response:
    return _serve_file(request, request.path_params["file"])


def _serve_file(request: Request, name: str) -> Response:
    """A file of the console; 304 if the browser has it already."""
    found = next((one for one in files("faregate.emulator.console").iterdir() if one.name == name), None)
    kind = _TYPES.get(name[name.rfind(".") :])
    if found is None or kind is None:
        raise ControlError(404, "invalid_request", f"the console has no part {name!r}")
    content = found.read_bytes()
    headers = {**_HEADERS, "ETag": f'"{sha256(content).hexdigest()[:32]}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


POLL_SECONDS: Final = 0.2
HEARTBEAT_SECONDS: Final = 10.0

Json = dict[str, Any]


async def stream_events(request: Request) -> StreamingResponse:
    """The world as it changes, by server-sent events."""
    emulator = get_emulator(request)
    watch = ChangeTracker(parse_environment(request))
    closing: Callable[[], bool] = request.scope.get("extensions", {}).get(IS_CLOSING, lambda: False)
    name: str = request.path_params["name"]
    told = _generate_events(get_tenants(request), name, emulator, watch, closing)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(told, media_type="text/event-stream", headers=headers)


async def _generate_events(
    worlds: Tenants, name: str, emulator: Emulator, watch: ChangeTracker, closing: Callable[[], bool]
) -> AsyncGenerator[str]:
    """Events, and a `beat` where there was none for long: its absence tells of a dead connection."""
    number, last = 0, monotonic()
    yield "retry: 1000\n\n"
    while not closing():
        found = emulator.look(watch.look)
        if found is None:
            await anyio.sleep(0)
            continue
        found |= watch.changed(_describe_surroundings(worlds, emulator))
        found |= _describe_clock(emulator.clock, watch)
        if found:
            number, last = number + 1, monotonic()
            yield _format_event(number, "whole" if "whole" in found else "change", found)
        elif monotonic() - last > HEARTBEAT_SECONDS:
            last = monotonic()
            yield "event: beat\ndata: {}\n\n"
        if worlds.find(name) is not emulator:
            yield _format_event(number + 1, "gone", {})
            return
        await anyio.sleep(POLL_SECONDS)


def _describe_surroundings(worlds: Tenants, emulator: Emulator) -> Json:
    return {"worlds": worlds.names, "faults": describe_faults(emulator), "snapshots": emulator.snapshots}


def _format_event(number: int, kind: str, data: Json) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"id: {number}\nevent: {kind}\ndata: {text}\n\n"


def _describe_clock(clock: EmulatorClock, watch: ChangeTracker) -> Json:
    """How the clock goes, when that has changed: the page reckons its time from there."""
    state = clock.state()
    now, real = datetime.fromisoformat(state["world"]), datetime.fromisoformat(state["real"])
    ahead = round(now.timestamp() - clock.rate * real.timestamp(), 1)
    if not watch.changed({"course": (clock.rate, ahead)}):
        return {}
    return {"clock": {"now": now.isoformat(), "mode": clock.mode, "rate": clock.rate}}
