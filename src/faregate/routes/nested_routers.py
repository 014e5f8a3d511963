"""The routers of an application, so that routes are noticed that it adds while it starts or runs."""

from collections.abc import Iterator
from typing import Any

from faregate.routes.wrappers import get_router, list_chains, list_declared_apps


def list_routers(app: Any, with_held: bool = True) -> list[tuple[Any, list[Any]]]:
    """List the router of an application and all routers below it, each with its routes as they are now.

    `with_held`: those too that endpoints and middleware hold.
    """
    return [(router, list(router.routes)) for router in _iter_routers(app, set(), with_held)]


def _iter_routers(app: Any, visited: set[int], with_held: bool) -> Iterator[Any]:
    for layers in list_chains(app):
        yield from _iter_below(layers[-1], visited, with_held)


def _iter_below(core: Any, visited: set[int], with_held: bool) -> Iterator[Any]:
    router = get_router(core)
    routes: Any = getattr(router, "routes", None)
    # By its class, and not by isinstance, which would narrow the type to a list of unknown objects.
    if not issubclass(type(routes), list) or id(router) in visited:
        return
    visited.add(id(router))
    yield router
    for route in routes:
        # FastAPI's included routers; mounts and hosts.
        below = getattr(route, "original_router", None)
        if below is None and (with_held or hasattr(route, "routes")):
            below = getattr(route, "app", None)
        if below is not None:
            yield from _iter_routers(below, visited, with_held)
    for app in list_declared_apps(core) if with_held else ():
        yield from _iter_routers(app, visited, with_held)
