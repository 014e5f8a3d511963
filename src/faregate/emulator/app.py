"""The emulator as an ASGI app: the service's API, the control plane and the console."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

import anyio

from faregate.emulator.asgi import build_api
from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Tenants
from faregate.service.asgi import App, Receive, Scope, Send

if TYPE_CHECKING:
    from faregate.emulator.state_file import StateFile

CONTROL: Final = "/_emulator"
"""Where the control plane is; never below the API's own prefix."""


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
