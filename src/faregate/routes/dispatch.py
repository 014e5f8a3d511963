"""Find the handler that an application runs for a request, by asking its own routers.

Routers of Starlette and FastAPI are recognized by their attributes, without importing either. Of an
application that has no such routers, nothing is found.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import isclass
from itertools import chain
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from faregate.core.models import Offer
from faregate.middleware.handlers import Handler, inspect_handler, pick_method
from faregate.middleware.path_rules import list_spellings
from faregate.routes.wrappers import list_inner_paywalls, list_paywalls, unwrap

_PARTIAL, _FULL = 1, 2  # of Starlette's `Match`
_CACHE_SIZE = 4096
_NO_OVERRIDES = SimpleNamespace(dependency_overrides={})


class HandlerResolver:
    """Finds the handlers of one application. Its findings for each handler are cached."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._cache: dict[tuple[int, int, str], tuple[Any, Any, Any, Handler]] = {}

    def resolve(self, asked: Mapping[str, Any], any_method: bool = False) -> Handler | None:
        """The handler that would answer the request of this ASGI scope, before it runs; None if unknown.

        `any_method`: if no route takes the method, take the handler of another one.
        """
        found = next(list_matches(self._app, dict(asked)))
        if any_method and found.route is None:
            others = list_matches(self._app, dict(asked), any_method=True)
            found = next((other for other in others if other.route is not None), found)
        return self._inspect_match(found, asked["method"])

    def _inspect_match(self, match: "RouteMatch", method: str) -> Handler | None:
        known = None if match.route is None else self._inspect(match.endpoint, match.route, method)
        if not match.prefix_offers:
            return known
        offers = (*match.prefix_offers, *(known.offers if known else ()))
        return Handler(offers, known.mistake if known else "")

    def recall(self, asked: Mapping[str, Any], scope: Mapping[str, Any], is_error: bool) -> Handler | None:
        """The handler that answered `asked`, by what its router has written to `scope` since.

        If no router was reached, the one whose result the answer may be: an error is none.
        """
        endpoint, route = _get_route(asked, scope)
        if route is not None:
            known = self._cache.get((id(endpoint), id(route), scope["method"]))
            # Overrides are set by tests, at any time, so what was found before them does not count.
            if known is not None and not known[2].dependency_overrides:
                return known[3]
        if route is None or _is_mount(route):
            # The response came before a router was reached, or its router was given a copy of the scope.
            return self._find_copied(asked, is_error=is_error)
        return self._inspect(endpoint, route, scope["method"])

    def _find_copied(self, asked: Mapping[str, Any], is_error: bool) -> Handler | None:
        """Find the handler of whose result an answer may be a copy that came without a router.

        A cache may keep it for any method and, if the path itself has no route, for another spelling.
        """
        found = self.resolve(asked, any_method=True)
        if found is not None or is_error:
            return found
        for path in list_spellings(asked["path"]):
            scope = {**asked, "path": path, "raw_path": quote(path).encode()}
            for match in list_matches(self._app, scope, any_method=True):
                handler = self._inspect_match(match, asked["method"])
                if handler is not None and handler.offers:
                    return handler
        return None

    def is_page(self, asked: Mapping[str, Any], path: str) -> bool:
        """Whether a decoded path on the host of `asked` is that of a page: a route that sells nothing.

        Its path has no parameters, which could hold anything.
        """
        raw_path = quote(path).encode()
        scope: dict[str, Any] = {
            **asked,
            "method": "GET",
            "path": path,
            "raw_path": raw_path,
            "path_params": {},
        }
        found = next(list_matches(self._app, scope))
        if not hasattr(found.route, "path") or found.path_parameters or found.prefix_offers:
            return False
        handler = self._inspect(found.endpoint, found.route, "GET")
        return not (handler.offers or handler.mistake)

    def _inspect(self, endpoint: Any, route: Any, method: str) -> Handler:
        provider = getattr(route, "dependency_overrides_provider", None)
        overrides = getattr(provider, "dependency_overrides", ())
        handler, dependant = _pick_sold(endpoint, method), getattr(route, "dependant", None)
        if overrides:
            return inspect_handler(handler, dependant, overrides)
        key = (id(endpoint), id(route), method)
        if key not in self._cache:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            provider = provider if hasattr(provider, "dependency_overrides") else _NO_OVERRIDES
            # Endpoint and route are kept too, so that their ids are not given to other objects.
            self._cache[key] = (endpoint, route, provider, inspect_handler(handler, dependant))
        return self._cache[key][3]


def _pick_sold(endpoint: Any, method: str) -> Any:
    """The method of an endpoint class that answers; if it has none, the first that is sold."""
    handler = pick_method(endpoint, method)
    if handler is not endpoint or not isclass(endpoint):
        return handler
    others = (getattr(endpoint, name, None) for name in ("get", "post", "put", "patch", "delete"))
    return next((other for other in others if other and inspect_handler(other).offers), handler)


def _get_route(asked: Mapping[str, Any], scope: Mapping[str, Any]) -> tuple[Any, Any]:
    """The endpoint and the route that a router has written to `scope`; None and None if none has."""
    endpoint, route, fastapi = scope.get("endpoint"), scope.get("route"), scope.get("fastapi")
    if fastapi:  # an included router, whose routes are known by the way they were included
        route = fastapi.get("effective_route_context")
    is_unrouted = endpoint is None or route is None or endpoint is asked.get("endpoint")
    return (None, None) if is_unrouted else (endpoint, route)


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """A route that takes a request, and the offers of the prefixes that its path is below.

    `route` is None for an application that answers by itself, which is the `endpoint` then.
    """

    endpoint: Any
    route: Any
    prefix_offers: tuple[Offer, ...]
    path_parameters: Mapping[str, Any]


def list_matches(
    app: Any, scope: dict[str, Any], above: tuple[Offer, ...] = (), any_method: bool = False
) -> Iterator[RouteMatch]:
    """List the routes that take the request of this ASGI scope, in the order of the routers.

    The first answers. At least one match is yielded: without a route, the application itself. `any_method`:
    list those too that take its path with another method.
    """
    core = unwrap(app)[-1]
    sold = (*above, *_get_prefix_offers(app, scope))
    has_route = False
    lowest = _PARTIAL if any_method else _FULL
    for route, child in chain(_match(_find_routes(core), scope, lowest), _match_frontends(core, scope)):
        has_route, inner = True, {**scope, **child}
        if _is_mount(route):
            yield from list_matches(inner.get("endpoint"), inner, sold, any_method)
        else:
            own = _get_prefix_offers(getattr(route, "app", None), inner)
            parameters: Mapping[str, Any] = inner.get("path_params") or {}
            yield RouteMatch(inner.get("endpoint"), route, (*sold, *own), parameters)
    fallback = find_fallback(core)
    if fallback is not None:
        yield from list_matches(fallback, scope, sold, any_method)
    elif not has_route:
        yield RouteMatch(core, None, sold, {})


def find_fallback(core: Any) -> Any:
    """Find the application that a router was given for what has no route; None if it has none."""
    router = getattr(core, "router", core)
    default = getattr(router, "default", None) if hasattr(router, "redirect_slashes") else None
    is_own = default is None or getattr(default, "__self__", None) is router
    return None if is_own else default


def _match(
    routes: Iterable[Any], scope: dict[str, Any], lowest: int = _FULL
) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """The routes that take a request, and what they add to its scope."""
    for route in routes:
        match, child = route.matches(scope)
        if match.value >= lowest:
            yield route, child


def _match_frontends(core: Any, scope: dict[str, Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """FastAPI's frontends come after all routes, the most specific first."""
    list_frontends: Any = getattr(getattr(core, "router", core), "_iter_low_priority_routes", tuple)
    matches = list(_match(list_frontends(), scope))
    yield from sorted(matches, key=lambda match: _get_specificity(match[1]), reverse=True)


def _get_specificity(child: Mapping[str, Any]) -> int:
    specificity: int = child.get("fastapi", {}).get("frontend_specificity", 0)
    return specificity


def _is_mount(route: Any) -> bool:
    """Whether a route leads to another application: a mount or a host. FastAPI's static files do not."""
    target = getattr(route, "starlette_route", None) or route
    return hasattr(target, "routes") and not hasattr(target, "dependant")


def _get_prefix_offers(app: Any, scope: Mapping[str, Any]) -> tuple[Offer, ...]:
    """The offers that paywalls around this application make for the path."""
    layers = unwrap(app)
    paywalls = [*list_paywalls(layers), *list_inner_paywalls(layers[-1])]
    matches = (one.path_rules.match(scope["path"], scope.get("root_path", "")) for one in paywalls)
    return tuple(match.offer for match in matches if match.offer is not None)


def _find_routes(core: Any) -> Iterator[Any]:
    for route in getattr(core, "routes", ()):
        contexts = getattr(route, "effective_route_contexts", None)  # FastAPI's included routers
        if contexts is not None:
            yield from contexts()
        elif hasattr(route, "matches"):  # Litestar's routes cannot be asked one by one
            yield route
