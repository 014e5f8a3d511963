"""Notice routes that are added to an application while it starts or runs."""

from collections.abc import Iterator
from typing import Any

from faregate.routes.wrappers import unwrap


class RouteWatch:
    """Remembers the routes of an application and of all routers below it."""

    def __init__(self, app: Any) -> None:
        self._seen = [(router, list(router.routes)) for router in _list_routers(app, set())]

    def has_changed(self) -> bool:
        """Whether a router has other routes than before. Asked for each request: lists are compared in C."""
        for router, routes in self._seen:  # noqa: SIM110 - `any` would call a generator
            if router.routes != routes:
                return True
        return False


def _list_routers(app: Any, visited: set[int]) -> Iterator[Any]:
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
            yield from _list_routers(below, visited)
