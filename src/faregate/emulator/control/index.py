"""`GET /_emulator`: what the control plane can do, read off its routes."""

from collections.abc import Sequence
from inspect import getdoc

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.told import told
from faregate.emulator.signs import SIGN


def routes_of_index(routes: Sequence[Route]) -> list[Route]:
    """The address that lists these and itself."""

    async def index(request: Request) -> Response:
        """This list."""
        return told({"emulator": SIGN[1], "addresses": addresses})

    own = Route("/_emulator", index, methods=["GET"])
    addresses: list[object] = [about for route in (own, *routes) for about in _about(route)]
    return [own]


def _about(route: Route) -> list[object]:
    """One line for each of its methods: the first of what its function says of itself."""
    line = (getdoc(route.endpoint) or "").partition("\n")[0]
    methods = sorted((route.methods or set[str]()) - {"HEAD"})
    return [{"method": method, "path": route.path, "about": line} for method in methods]
