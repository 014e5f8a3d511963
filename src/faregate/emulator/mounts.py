"""The emulator as a whole ASGI app: the service's API, and beside it the control plane and the console."""

from typing import Final

from faregate.emulator.asgi import App, Receive, Scope, Send, api
from faregate.emulator.emulator import Emulator
from faregate.emulator.extra import extra_missing
from faregate.emulator.worlds import Worlds

CONTROL: Final = "/_emulator"
"""Where the control plane is; never below the API's own prefix."""


def app(emulator: Emulator | Worlds, *, control: bool = True) -> App:
    """To be served or mounted under any path. Without `control` there is only the service's API."""
    worlds = Worlds(emulator) if isinstance(emulator, Emulator) else emulator
    serve = api(worlds)
    beside = _control(worlds) if control else serve

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await (beside if _is_control(scope) else serve)(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)

    return dispatch


def _control(worlds: Worlds) -> App:
    try:
        from faregate.emulator.control import control_plane
    except ModuleNotFoundError as error:
        raise extra_missing(error) from None
    return control_plane(worlds)


def _is_control(scope: Scope) -> bool:
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path in ("", "/", CONTROL) or path.startswith(f"{CONTROL}/")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
