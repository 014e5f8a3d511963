"""The routers of an application, so that routes are noticed that it adds while it starts or runs."""

from collections.abc import Iterator
from typing import Any

from faregate.routes.wrappers import unwrap


def list_routers(app: Any) -> list[tuple[Any, list[Any]]]:
    """List the router of an application and all routers below it, each with its routes as they are now."""
    return [(router, list(router.routes)) for router in _iter_routers(app, set())]


def _iter_routers(app: Any, visited: set[int]) -> Iterator[Any]:
    core = unwrap(app)[-1]
    router = getattr(core, "router", core)
    routes: Any = getattr(router, "routes", None)
    # By its class, and not by isinstance, which would narrow the type to a list of unknown objects.
    if not issubclass(type(routes), list) or id(router) in visited:
        return
    visited.add(id(router))
    yield router
    for route in routes:
        # FastAPI's included routers; mounts and hosts.
        below = getattr(route, "original_router", None) or getattr(route, "app", None)
        if below is not None:
            yield from _iter_routers(below, visited)
