"""The control plane: what a test, a person or a program in another language can do to the emulator.

JSON over HTTP below `/_emulator`, never below the service's own API. `/` is the console.
"""

from collections.abc import Sequence
from inspect import getdoc

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.asgi import App
from faregate.emulator.control.access import guarded
from faregate.emulator.control.calls import routes_of_calls
from faregate.emulator.control.clock import routes_of_clock
from faregate.emulator.control.common import error_as_json, failure_as_json, misconfigured_as_json, told
from faregate.emulator.control.faults import routes_of_faults
from faregate.emulator.control.payers import routes_of_payers
from faregate.emulator.control.state import routes_of_state
from faregate.emulator.control.tenants import routes_of_worlds
from faregate.emulator.control.transactions import routes_of_payments
from faregate.emulator.delivery import SIGN
from faregate.emulator.tenants import Worlds
from faregate.errors import ConfigurationError

__all__ = ["build_control_plane"]


def build_control_plane(worlds: Worlds, console: Sequence[Route]) -> App:
    """Build the ASGI app for `/` and everything below `/_emulator`; `console` are the routes of its page."""
    routes = [
        *routes_of_worlds(),
        *routes_of_clock(),
        *routes_of_state(),
        *routes_of_payments(),
        *routes_of_payers(),
        *routes_of_faults(),
        *routes_of_calls(),
    ]
    listed = [*routes, *(route for route in console if "{name}" in route.path)]
    app = Starlette(
        routes=[_build_index(listed), *routes, *console],
        exception_handlers={
            HTTPException: error_as_json,
            ConfigurationError: misconfigured_as_json,
            Exception: failure_as_json,
        },
    )
    app.state.worlds = worlds
    return guarded(app)


def _build_index(routes: Sequence[Route]) -> Route:
    """Build `GET /_emulator`, which lists these routes and itself."""

    async def index(request: Request) -> Response:
        """This list."""
        return told({"emulator": SIGN[1], "addresses": addresses})

    own = Route("/_emulator", index, methods=["GET"])
    addresses: list[object] = [one for route in (own, *routes) for one in _describe(route)]
    return own


def _describe(route: Route) -> list[object]:
    """One entry for each method: the first line of its function's docstring says what it does."""
    line = (getdoc(route.endpoint) or "").partition("\n")[0]
    methods = sorted((route.methods or set[str]()) - {"HEAD"})
    return [{"method": method, "path": route.path, "about": line} for method in methods]
