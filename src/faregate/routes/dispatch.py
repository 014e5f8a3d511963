"""What an application would run for a request: its own routers are asked, before it runs or afterwards.

Starlette's and FastAPI's routers are understood by what they offer, without importing either. Of an
application that has no routes nothing is known.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from faregate.core.models import Offer
from faregate.middleware.handlers import Handler, inspect_handler, pick_method
from faregate.routes.wrappers import get_paywall_layer, list_inner_paywalls, unwrap

_FULL = 2
"""The value of Starlette's `Match.FULL`."""
_MOST = 4096
"""Inspected handlers that are remembered."""


class HandlerResolver:
    """Finds the handlers of one application."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._known: dict[tuple[int, int, str], tuple[Any, Any, Handler]] = {}

    def resolve(self, asked: Mapping[str, Any]) -> Handler | None:
        """What would answer the request of this scope; None if nothing is known to."""
        return self._resolve(self._app, dict(asked))

    def recall(self, asked: Mapping[str, Any], scope: Mapping[str, Any]) -> Handler | None:
        """What answered the request `asked`, by what its router noted in `scope` since."""
        endpoint, route, fastapi = scope.get("endpoint"), scope.get("route"), scope.get("fastapi")
        if fastapi:  # an included router, whose routes are known by the way they were included
            route = fastapi.get("effective_route_context")
        unseen = endpoint is None or route is None or endpoint is asked.get("endpoint")
        if unseen or _is_mount(route):
            return self.resolve(asked)  # who answered stands before a router, or copied the scope
        return self._inspect(endpoint, route, scope["method"])

    def _resolve(self, app: Any, scope: dict[str, Any]) -> Handler | None:
        core = unwrap(app)[-1]
        sold = _get_prefix_offers(app, scope)
        found = None
        for route in _find_routes(core):
            match, child = route.matches(scope)
            if match.value == _FULL:
                found = self._follow(route, {**scope, **child})
                break
        if not sold:
            return found
        return Handler((*sold, *(found.offers if found else ())), found.mistake if found else "")

    def _follow(self, route: Any, scope: dict[str, Any]) -> Handler | None:
        endpoint = scope.get("endpoint")
        if _is_mount(route):
            return self._resolve(endpoint, scope)
        known = self._inspect(endpoint, route, scope["method"])
        sold = _get_prefix_offers(getattr(route, "app", None), scope)
        return Handler((*known.offers, *sold), known.mistake) if sold else known

    def _inspect(self, endpoint: Any, route: Any, method: str) -> Handler:
        overrides = getattr(getattr(route, "dependency_overrides_provider", None), "dependency_overrides", ())
        handler, dependant = pick_method(endpoint, method), getattr(route, "dependant", None)
        if overrides:
            return inspect_handler(handler, dependant, overrides)
        key = (id(endpoint), id(route), method)
        if key not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            # Kept with what it is known of: an id is never another's.
            self._known[key] = (endpoint, route, inspect_handler(handler, dependant))
        return self._known[key][2]


def _is_mount(route: Any) -> bool:
    """Whether it leads to another application: a mount or a host. FastAPI's groups of files do not."""
    target = getattr(route, "starlette_route", None) or route
    return hasattr(target, "routes") and not hasattr(target, "dependant")


def _get_prefix_offers(app: Any, scope: Mapping[str, Any]) -> tuple[Offer, ...]:
    """What paywalls between this place and the handler sell as prefixes."""
    wrapped = unwrap(app)
    fronts = [
        *(front for layer in wrapped if (front := get_paywall_layer(layer))),
        *list_inner_paywalls(wrapped[-1]),
    ]
    places = (front.path_rules.match(scope["path"], scope.get("root_path", "")) for front in fronts)
    return tuple(place.offer for place in places if place.offer is not None)


def _find_routes(core: Any) -> Iterator[Any]:
    for route in getattr(core, "routes", ()):
        contexts = getattr(route, "effective_route_contexts", None)  # FastAPI's included routers
        if contexts is not None:
            yield from contexts()
        elif hasattr(route, "matches"):  # Litestar's routes are asked by a router that has no such name
            yield route
    yield from getattr(getattr(core, "router", core), "_iter_low_priority_routes", tuple)()
