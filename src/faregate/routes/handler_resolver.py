"""Find the handler that an application runs for a request, by asking its own routers.

Routers of Starlette and FastAPI are recognized by their attributes, without importing either. Nothing is
found for an application without such routers.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import isclass
from itertools import chain, islice
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

from faregate.checkout.handlers import Handler, inspect_handler, name_handler, pick_method
from faregate.checkout.path_rules import list_spellings
from faregate.checkout.wrapped_callables import get_module, walk, walk_chain
from faregate.core.models import Offer
from faregate.routes.nested_routers import list_routers
from faregate.routes.wrappers import (
    get_own_root,
    get_router,
    has_app,
    list_chains,
    list_declared_apps,
    list_inner_paywalls,
    list_paywalls,
    unwrap,
)

_PARTIAL, _FULL = 1, 2  # of Starlette's `Match`
_CACHE_SIZE = 4096
_NO_OVERRIDES = SimpleNamespace(dependency_overrides={})


class HandlerResolver:
    """Finds the handlers of one application. Its findings for each handler are cached.

    A `server_scope` is the scope as it came from the server; a `scope` is the one in which routers have left
    what they found.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._cache: dict[tuple[int, int, str], tuple[Any, Any, Any, Handler, bool]] = {}

    def resolve(self, server_scope: Mapping[str, Any], any_method: bool = False) -> Handler | None:
        """The handler that would answer the request of this ASGI scope, before it runs; None if unknown.

        `any_method`: if no route takes the method, take the handler of another one.
        """
        matches = list(list_matches(self._app, dict(server_scope), first_only=True))
        if any_method and any(match.route is None and _has_any_route(match.endpoint) for match in matches):
            others = list_matches(self._app, dict(server_scope), any_method=True)
            routed = (other for other in others if other.route is not None)
            matches += islice(routed, 1 if len(matches) == 1 else None)
        handlers = [self._inspect_match(match, server_scope["method"]) for match in matches]
        inspected = [handler for handler in handlers if handler is not None]
        # Which of several applications gets the request is not known: what one of them sells may be a result.
        return next(
            (handler for handler in inspected if handler.offers or handler.mistake),
            inspected[0] if inspected else None,
        )

    def is_sold(self, server_scope: Mapping[str, Any]) -> bool:
        """Whether every handler that may answer the request of this scope has an offer."""
        matches = list(list_matches(self._app, dict(server_scope), first_only=True))
        routed = [match for match in matches if match.route is not None] or matches[:1]
        handlers = [self._inspect_match(match, server_scope["method"]) for match in routed]
        return bool(handlers) and all(handler is not None and handler.offers for handler in handlers)

    def name_unfound_endpoint(self, server_scope: Mapping[str, Any], scope: Mapping[str, Any]) -> str | None:
        """Name the endpoint that a router has written to `scope`; None if `server_scope` leads to it."""
        endpoint, route = _get_route(server_scope, scope)
        key = (id(endpoint), id(route), server_scope["method"])
        if route is None or key in self._cache:
            return None
        matches = list_matches(self._app, dict(server_scope), any_method=True)
        if not any(match.endpoint is endpoint for match in matches):
            return name_handler(endpoint)
        self._inspect(endpoint, route, server_scope["method"])  # to find it in the cache from now on
        return None

    def _inspect_match(self, match: "RouteMatch", method: str) -> Handler | None:
        handler: Handler | None = None
        if match.route is not None:
            handler = self._inspect(match.endpoint, match.route, method)
        elif match.endpoint is not None:
            unrouted = self._inspect(match.endpoint, None, method)
            handler = unrouted if unrouted.offers or unrouted.mistake else None
        if not match.prefix_offers:
            return handler
        offers = (*match.prefix_offers, *(handler.offers if handler else ()))
        return Handler(offers, handler.mistake if handler else "")

    def recall(
        self, server_scope: Mapping[str, Any], scope: Mapping[str, Any], is_harmless_error: bool
    ) -> Handler | None:
        """The handler that answered `server_scope`, by what its router has written to `scope` since.

        If no router was reached, the handler whose result the answer may repeat; for a harmless error, other
        spellings of the path are not tried.
        """
        endpoint, route = _get_route(server_scope, scope)
        if route is not None:
            cached = self._cache.get((id(endpoint), id(route), scope["method"]))
            # Overrides are set by tests, at any time, so what was found before them does not count.
            if cached is not None and not cached[2].dependency_overrides and not cached[4]:
                return cached[3]
        if getattr(route, "endpoint", None) is None or self._leads_on(endpoint):
            # The response came before a router was reached, or its router was given a copy of the scope.
            return self._find_copied(server_scope, is_harmless_error=is_harmless_error)
        return self._inspect(endpoint, route, scope["method"])

    def _find_copied(self, server_scope: Mapping[str, Any], is_harmless_error: bool) -> Handler | None:
        """Find the handler whose result an answer may repeat that came without a router.

        A cache may keep it for any method and, if the path itself has no route, for another spelling.
        """
        resolved = self.resolve(server_scope, any_method=True)
        if resolved is not None or is_harmless_error:
            return resolved
        for path in list_spellings(server_scope["path"]):
            scope = {**server_scope, "path": path, "raw_path": quote(path).encode()}
            for match in list_matches(self._app, scope, any_method=True):
                handler = self._inspect_match(match, server_scope["method"])
                if handler is not None and handler.offers:
                    return handler
        return None

    def is_free_page(self, server_scope: Mapping[str, Any], path: str) -> bool:
        """Whether a decoded path, on the host of the request, leads to a page: a route that sells nothing.

        The path of a page has no parameters, because a parameter could hold anything.
        """
        raw_path = quote(path).encode()
        scope: dict[str, Any] = {
            **server_scope,
            "method": "GET",
            "path": path,
            "raw_path": raw_path,
            "path_params": {},
            "route": None,
        }
        matches = list_matches(self._app, scope, first_only=True)
        routed = [match for match in matches if match.route is not None]
        return bool(routed) and all(map(self._is_free_page, routed))

    def _is_free_page(self, match: "RouteMatch") -> bool:
        if not hasattr(match.route, "path") or match.path_parameters or match.prefix_offers:
            return False
        handler = self._inspect(match.endpoint, match.route, "GET")
        return not (handler.offers or handler.mistake)

    def _inspect(self, endpoint: Any, route: Any, method: str) -> Handler:
        provider = getattr(route, "dependency_overrides_provider", None)
        overrides = getattr(provider, "dependency_overrides", ())
        handler, dependant = _pick_sold(endpoint, method), getattr(route, "dependant", None)
        named = getattr(route, "dependencies", ())
        if overrides:
            return inspect_handler(handler, dependant, overrides, dependencies=named)
        # An application that has no routes may hold handlers for several paths.
        follow = walk_chain if route is None else walk
        key = (id(endpoint), id(route), method)
        if key not in self._cache:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            provider = provider if hasattr(provider, "dependency_overrides") else _NO_OVERRIDES
            inspected = inspect_handler(handler, dependant, follow=follow, dependencies=named)
            # Endpoint and route are kept too, so that their ids are not given to other objects.
            self._cache[key] = (endpoint, route, provider, inspected, self._leads_on(endpoint))
        return self._cache[key][3]

    def _leads_on(self, endpoint: Any) -> bool:
        """Whether an endpoint hands requests on to an application, other than those it stands in."""
        if not has_app(endpoint):
            return False
        around = {id(router) for router, _ in list_routers(self._app, with_held=False)}
        return any(id(get_router(layers[-1])) not in around for layers in list_chains(endpoint))


def _pick_sold(endpoint: Any, method: str) -> Any:
    """The method of an endpoint class that answers; if it has none, the first that is sold."""
    handler = pick_method(endpoint, method)
    if handler is not endpoint or not isclass(endpoint):
        return handler
    others = (getattr(endpoint, name, None) for name in ("get", "post", "put", "patch", "delete"))
    return next((other for other in others if other and inspect_handler(other).offers), handler)


def _get_route(server_scope: Mapping[str, Any], scope: Mapping[str, Any]) -> tuple[Any, Any]:
    """The endpoint and the route that a router has written to `scope`; None and None if none has."""
    endpoint, route, fastapi = scope.get("endpoint"), scope.get("route"), scope.get("fastapi")
    if fastapi:  # an included router, whose routes are known by the way they were included
        route = fastapi.get("effective_route_context")
    is_unrouted = endpoint is None or route is None or endpoint is server_scope.get("endpoint")
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
    app: Any,
    scope: dict[str, Any],
    prefix_offers: tuple[Offer, ...] = (),
    any_method: bool = False,
    first_only: bool = False,
    entered: tuple[int, ...] = (),
) -> Iterator[RouteMatch]:
    """List the routes that take the request of this ASGI scope, in the order of the routers.

    The first route answers. Where a layer leads to several applications, one of their first routes answers.
    With `first_only`, list only first routes. Without any route, yield the application itself. With
    `any_method`, list also routes that take the path with another method. `entered` are the ids of the
    routers above: a layer may hold one of them as well.
    """
    for layers in list_chains(app):
        router = id(get_router(layers[-1]))
        if router not in entered:
            offers = (*prefix_offers, *_get_prefix_offers(layers, scope))
            inside = (*entered, router)
            list_below = partial(list_matches, any_method=any_method, first_only=first_only, entered=inside)
            own_root = get_own_root(layers[-1])
            rooted = {**scope, "root_path": own_root} if own_root else scope
            yield from _list_matches(layers[-1], rooted, offers, any_method, first_only, list_below)


def _list_matches(
    core: Any,
    scope: dict[str, Any],
    prefix_offers: tuple[Offer, ...],
    any_method: bool,
    first_only: bool,
    list_below: Any,
) -> Iterator[RouteMatch]:
    for side in list_declared_apps(core):
        yield from list_below(side, scope, prefix_offers)
    has_route = False
    lowest = _PARTIAL if any_method else _FULL
    for route, child in chain(_match(_find_routes(core), scope, lowest), _match_frontends(core, scope)):
        # The route of a paywall that stands on one is not that of an application below it.
        has_route, inner = True, {**scope, "route": None, **child}
        endpoint = inner.get("endpoint") if "endpoint" in child else None
        if _is_mount(route):
            yield from list_below(endpoint, inner, prefix_offers)
        else:
            own = _get_prefix_offers(unwrap(getattr(route, "app", None)), inner)
            parameters: Mapping[str, Any] = inner.get("path_params") or {}
            yield RouteMatch(endpoint, route, (*prefix_offers, *own), parameters)
            if has_app(handing_on := route if endpoint is None else endpoint):
                yield from list_below(handing_on, inner, prefix_offers)
        if first_only:
            return
    fallback = find_fallback(core)
    if fallback is not None:
        yield from list_below(fallback, scope, prefix_offers)
    elif not has_route:
        yield _build_unrouted(core, scope, prefix_offers)


def _build_unrouted(core: Any, scope: Mapping[str, Any], prefix_offers: tuple[Offer, ...]) -> RouteMatch:
    """What answers where no route takes a request: the application, its handler of 404, or its own route."""
    endpoint, route = _get_route({}, scope)
    if route is not None and not _is_mount(route) and not has_app(core):
        return RouteMatch(endpoint, route, prefix_offers, {})
    missing = _find_missing_handler(core) or _find_missing_handler(scope.get("app"))
    return RouteMatch(missing or core, None, prefix_offers, {})


def _find_missing_handler(core: Any) -> Any:
    """Find the application's own handler of errors for what has no route; None if it has none."""
    registered: Any = getattr(core, "exception_handlers", None)
    handlers = cast("dict[Any, Any]", registered) if issubclass(type(registered), dict) else {}
    for key, handler in handlers.items():
        if getattr(key, "__name__", key) in (404, "HTTPException") and get_module(handler) != _OF_FASTAPI:
            return handler
    return None


_OF_FASTAPI = "fastapi.exception_handlers"
"""Where FastAPI's own handlers of errors are made."""


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


def _get_prefix_offers(layers: list[Any], scope: Mapping[str, Any]) -> tuple[Offer, ...]:
    """The offers that the paywalls of these layers make for the path."""
    paywalls = [*list_paywalls(layers), *list_inner_paywalls(layers[-1])]
    matches = (paywall.path_rules.match(scope["path"], scope.get("root_path", "")) for paywall in paywalls)
    return tuple(match.offer for match in matches if match.offer is not None)


def _has_any_route(core: Any) -> bool:
    return next(_find_routes(core), None) is not None


def _find_routes(core: Any) -> Iterator[Any]:
    for route in getattr(core, "routes", ()):
        contexts = getattr(route, "effective_route_contexts", None)  # FastAPI's included routers
        if contexts is not None:
            yield from contexts()
        elif hasattr(route, "matches"):  # Litestar's routes cannot be asked one by one
            yield route
