"""Serve the console: its page and files, and `GET /_emulator/tenants/{name}/events`, its live data.

The events are server-sent events. The first one of a connection is `whole`: everything that the page shows.
Each one after it is a `change`: the parts that differ, with new and changed transactions and new calls. A
page that reconnects gets `whole` again, so it misses nothing and `Last-Event-ID` is not needed. `gone` is the
last event of a tenant that was deleted.

For each open page the state is polled five times a second. If the page reads slowly, polling waits for it.
"""

import json
from collections.abc import AsyncGenerator, Callable
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

from faregate.emulator.clock import EmulatorClock
from faregate.emulator.console.changes import ChangeTracker
from faregate.emulator.control.common import ControlError, get_emulator, get_tenants, parse_environment
from faregate.emulator.control.faults import format_faults
from faregate.emulator.delivery import CLOSING_EXTENSION
from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Tenants

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The page shows text of sellers and payers, so it runs no inline script and loads nothing from elsewhere.
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
    compressed = [Middleware(GZipMiddleware)]
    return [
        Route("/_emulator/tenants/{name}/events", stream_events, methods=["GET"]),
        Route("/", serve_page, methods=["GET"], middleware=compressed),
        Route("/_emulator/console/{file}", serve_file, methods=["GET"], middleware=compressed),
    ]


async def serve_page(request: Request) -> Response:
    return _build_file_response(request, "page.html")


async def serve_file(request: Request) -> Response:
    return _build_file_response(request, request.path_params["file"])


def _build_file_response(request: Request, name: str) -> Response:
    """Return a file of the console, 304 if the browser has it already."""
    file = next((entry for entry in files("faregate.emulator.console").iterdir() if entry.name == name), None)
    kind = _TYPES.get(name[name.rfind(".") :])
    if file is None or kind is None:
        raise ControlError(404, "invalid_request", f"the console has no file {name!r}")
    # Looked up among the package's files, so that a name such as `..` reaches nothing else.
    content = file.read_bytes()
    headers = {**_HEADERS, "ETag": f'"{sha256(content).hexdigest()[:32]}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


POLL_SECONDS: Final = 0.2
HEARTBEAT_SECONDS: Final = 10.0
Json = dict[str, Any]


async def stream_events(request: Request) -> StreamingResponse:
    """Stream the tenant's changes as server-sent events."""
    emulator = get_emulator(request)
    tracker = ChangeTracker(parse_environment(request))
    is_closing: Callable[[], bool] = request.scope.get("extensions", {}).get(CLOSING_EXTENSION, lambda: False)
    name: str = request.path_params["name"]
    stream = _generate_events(get_tenants(request), name, emulator, tracker, is_closing)
    # X-Accel-Buffering: nginx would otherwise collect the events and deliver them late.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _generate_events(
    tenants: Tenants, name: str, emulator: Emulator, tracker: ChangeTracker, is_closing: Callable[[], bool]
) -> AsyncGenerator[str]:
    """Generate events, and a `beat` after each silence, so that the page notices a dead connection."""
    number, last = 0, monotonic()
    yield "retry: 1000\n\n"
    while not is_closing():
        changes = emulator.read_state(tracker.find_changes)
        if changes is None:
            # There is more to read. Let other requests run between two pieces of a large state.
            await anyio.sleep(0)
            continue
        changes |= tracker.filter_changed(
            {"tenants": tenants.names, "faults": format_faults(emulator), "snapshots": emulator.snapshots}
        )
        changes |= _find_clock_change(emulator.clock, tracker)
        if changes:
            number, last = number + 1, monotonic()
            yield _format_event(number, "whole" if "whole" in changes else "change", changes)
        elif monotonic() - last > HEARTBEAT_SECONDS:
            last = monotonic()
            yield "event: beat\ndata: {}\n\n"
        if tenants.find(name) is not emulator:
            yield _format_event(number + 1, "gone", {})
            return
        await anyio.sleep(POLL_SECONDS)


def _format_event(number: int, kind: str, data: Json) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"id: {number}\nevent: {kind}\ndata: {text}\n\n"


def _find_clock_change(clock: EmulatorClock, tracker: ChangeTracker) -> Json:
    """Return the clock if its rate or offset changed; in between, the page computes the time itself."""
    state = clock.state()
    offset = round(state.simulated.timestamp() - state.rate * state.real.timestamp(), 1)
    if not tracker.filter_changed({"course": (state.rate, offset)}):
        return {}
    return {"clock": {"now": state.simulated.isoformat(), "mode": clock.mode, "rate": state.rate}}
