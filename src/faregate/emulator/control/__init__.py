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

from faregate.emulator.control.access import restrict_access
from faregate.emulator.control.calls import build_call_routes
from faregate.emulator.control.clock import build_clock_routes
from faregate.emulator.control.common import (
    handle_configuration_error,
    handle_crash,
    handle_http_error,
    json_response,
)
from faregate.emulator.control.faults import build_fault_routes
from faregate.emulator.control.payers import build_payer_routes
from faregate.emulator.control.payments import build_test_payment_routes
from faregate.emulator.control.state import build_state_routes
from faregate.emulator.control.tenants import build_tenant_routes
from faregate.emulator.control.transactions import build_transaction_routes
from faregate.emulator.delivery import MARKER_HEADER
from faregate.emulator.tenants import Tenants
from faregate.errors import ConfigurationError
from faregate.service.asgi import App

__all__ = ["build_control_plane"]


def build_control_plane(tenants: Tenants, console: Sequence[Route]) -> App:
    """Build the ASGI app for `/` and everything below `/_emulator`; `console` are the routes of its page."""
    routes = [
        *build_tenant_routes(),
        *build_clock_routes(),
        *build_state_routes(),
        *build_transaction_routes(),
        *build_payer_routes(),
        *build_test_payment_routes(),
        *build_fault_routes(),
        *build_call_routes(),
    ]
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
    app.state.tenants = tenants
    return restrict_access(app)


def _build_index(routes: Sequence[Route]) -> Route:
    """Build `GET /_emulator`, which lists these routes and itself."""

    async def index(request: Request) -> Response:
        """List all addresses."""
        return json_response({"emulator": MARKER_HEADER[1], "addresses": addresses})

    own = Route("/_emulator", index, methods=["GET"])
    addresses: list[object] = [one for route in (own, *routes) for one in _describe(route)]
    return own


def _describe(route: Route) -> list[object]:
    """Build one entry per method, described by the first line of the endpoint's docstring."""
    line = (getdoc(route.endpoint) or "").partition("\n")[0]
    methods = sorted((route.methods or set[str]()) - {"HEAD"})
    return [{"method": method, "path": route.path, "about": line} for method in methods]
