"""The control plane: how tests, people and programs in other languages control the emulator.

JSON over HTTP below `/_emulator`, never below the service's own API. `/` is the console.
"""

from collections.abc import Sequence
from inspect import getdoc

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control import calls, faults, payers, state, tenants, transactions
from faregate.emulator.control.access import restrict_access
from faregate.emulator.control.common import (
    handle_configuration_error,
    handle_crash,
    handle_http_error,
    json_response,
)
from faregate.emulator.delivery import MARKER_HEADER
from faregate.emulator.tenants import Tenants
from faregate.errors import ConfigurationError
from faregate.rules.asgi import App

__all__ = ["build_control_plane"]


def build_control_plane(served: Tenants, console: Sequence[Route]) -> App:
    """Build the ASGI app for `/` and everything below `/_emulator`; `console` are the routes of its page."""
    parts = (tenants, state, transactions, payers, faults, calls)
    routes = [route for part in parts for route in part.ROUTES]
    # Of the console only the event stream is listed; its page and files are not an interface.
    listed = [*routes, *(route for route in console if "{name}" in route.path)]
    app = Starlette(
        routes=[_build_index(listed), *routes, *console],
        exception_handlers={
            HTTPException: handle_http_error,
            ConfigurationError: handle_configuration_error,
            Exception: handle_crash,
        },
    )
    app.state.tenants = served
    return restrict_access(app)


def _build_index(routes: Sequence[Route]) -> Route:
    """Build `GET /_emulator`, which lists these routes and itself."""

    async def index(request: Request) -> Response:
        """List all addresses."""
        return json_response({"emulator": MARKER_HEADER[1], "addresses": addresses})

    own = Route("/_emulator", index, methods=["GET"])
    addresses: list[object] = [address for route in (own, *routes) for address in _describe(route)]
    return own


def _describe(route: Route) -> list[object]:
    """Build one entry per method, described by the first line of the endpoint's docstring."""
    line = (getdoc(route.endpoint) or "").partition("\n")[0]
    methods = sorted((route.methods or set[str]()) - {"HEAD"})
    return [{"method": method, "path": route.path, "about": line} for method in methods]
