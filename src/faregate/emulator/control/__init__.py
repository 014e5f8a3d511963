"""The control plane: what a test, a person or another language does to the emulator, as JSON over HTTP.

Everything is below `/_emulator`, never below the service's own API. `/` is the console.
"""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from faregate.emulator.asgi import App
from faregate.emulator.control.calls import routes_of_calls
from faregate.emulator.control.clock import routes_of_clock
from faregate.emulator.control.faults import routes_of_faults
from faregate.emulator.control.feed import routes_of_feed
from faregate.emulator.control.guard import guarded
from faregate.emulator.control.index import routes_of_index
from faregate.emulator.control.page import routes_of_page
from faregate.emulator.control.payers import routes_of_payers
from faregate.emulator.control.payments import routes_of_payments
from faregate.emulator.control.settlements import routes_of_settlements
from faregate.emulator.control.state import routes_of_state
from faregate.emulator.control.told import error_as_json, failure_as_json, misconfigured_as_json
from faregate.emulator.control.worlds import routes_of_worlds
from faregate.emulator.tenants import Worlds
from faregate.errors import ConfigurationError

__all__ = ["control_plane"]


def control_plane(worlds: Worlds) -> App:
    """An ASGI app for `/` and all of `/_emulator`."""
    routes = [
        *routes_of_worlds(),
        *routes_of_clock(),
        *routes_of_state(),
        *routes_of_payments(),
        *routes_of_settlements(),
        *routes_of_payers(),
        *routes_of_faults(),
        *routes_of_calls(),
        *routes_of_feed(),
    ]
    app = Starlette(
        routes=[*routes_of_index(routes), *routes, *routes_of_page()],
        exception_handlers={
            HTTPException: error_as_json,
            ConfigurationError: misconfigured_as_json,
            Exception: failure_as_json,
        },
    )
    app.state.worlds = worlds
    return guarded(app)
