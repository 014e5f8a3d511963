"""Find the price that an application asks for before anything of its own could answer.

Such a price is asked for before routing and dependencies run, if a request has no payment: the answer is the
same, and most of what such a request costs is saved. Where something else of the application could answer
first (middleware, a dependency before the price, a body that is parsed, a function that chooses the offer),
nothing is found, and the application asks for the price itself.
"""

import re
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from faregate.checkout.handlers import OFFER, inspect_handler, is_price
from faregate.core.models import Offer, OfferChoice
from faregate.routes.nested_routers import list_routers

_TRANSPARENT = frozenset(
    (
        "fastapi.middleware.asyncexitstack.AsyncExitStackMiddleware",
        "starlette.middleware.exceptions.ExceptionMiddleware",
    )
)
"""Middleware that answers nothing before it calls the router."""
_ROUTERS = frozenset(("fastapi.routing.APIRouter", "starlette.routing.Router"))
_ROUTES = frozenset(("fastapi.routing.APIRoute", "starlette.routing.Route"))
_INCLUDED_ROUTER = "fastapi.routing._IncludedRouter"
_INCLUDED_ROUTE = "fastapi.routing._EffectiveRouteContext"
"""A route of an included router, with the prefix and the dependencies of its inclusion."""
_MODULES = ("fastapi.routing", "starlette.routing")
_PROBE = "faregate.routes.probes.RouterProbe"
_DEPENDENCY = "faregate.fastapi.RequirePayment"
_RUNS_ENDPOINT = "request_response.<locals>.app"
"""The function that Starlette and FastAPI make of an endpoint; middleware of the route would stand around."""
_TELEMETRY = "fastapi.telemetry"
"""Where FastAPI keeps the trace of a request, which its router gives the name of the route."""
_FULL = 2  # of Starlette's `Match`
_GROUP_NAME = re.compile(r"\(\?P<\w+>")


class FirstPrices:
    """The prices of one application by route. They are looked for again when a router has other routes."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._routers: list[tuple[Any, list[Any]]] | None = None
        self._routes: list[tuple[Any, re.Pattern[str] | None]] = []
        """All routes in their order, with the pattern of the path where it decides what the route takes."""
        self._offers: dict[int, Offer] = {}
        self._paths: re.Pattern[str] | None = None

    def find(self, asked: Mapping[str, Any]) -> tuple[Offer, dict[str, Any]] | None:
        """Find the price of the request of this scope, and the scope with its endpoint and its route.

        None if something else may answer first, or if there is no price.
        """
        if self._has_changed():
            self._read()
        # Most requests are for routes without a price: one pattern for all prices spares asking each route.
        if self._paths is None or self._paths.match(asked["path"]) is None:
            return None
        if asked["method"] == "OPTIONS" or asked.get("root_path") or asked.get(_TELEMETRY) is not None:
            return None
        scope = dict(asked)
        for route, pattern in self._routes:
            if pattern is not None and pattern.match(asked["path"]) is None:
                continue  # in place of `matches`, which takes ten times as long
            match, child = route.matches(scope)
            if match.value == _FULL:
                offer = self._offers.get(id(route))
                if offer is None or _has_overrides(route):
                    return None
                return offer, {**asked, "endpoint": child["endpoint"], **_name_route(route)}
        return None

    def _has_changed(self) -> bool:
        """Whether a router has other routes than before. Asked for each request: lists are compared in C."""
        if self._routers is None:
            return True
        for router, routes in self._routers:  # noqa: SIM110 - `any` would call a generator
            if router.routes != routes:
                return True
        return False

    def _read(self) -> None:
        # Not before the first request: then the application is complete.
        router = _find_router(self._app)
        self._routers = [] if router is None else list_routers(router, with_held=False)
        routes = [] if router is None else list(_list_routes(router.routes))
        self._routes = [(route, route.path_regex if _is_plain(route) else None) for route in routes]
        offers = {id(route): _find_first_price(route) for route in routes}
        self._offers = {key: offer for key, offer in offers.items() if offer is not None}
        sold = (route.path_regex.pattern for route in routes if id(route) in self._offers)
        patterns = [_GROUP_NAME.sub("(?:", pattern) for pattern in sold]
        self._paths = re.compile("|".join(patterns)) if patterns else None


def _find_router(app: Any) -> Any:
    """Find the router that an application gives each request to, unanswered; None if it may not."""
    while _name_class(app) in _TRANSPARENT:
        app = app.app
    if _name_class(app) not in _ROUTERS:
        return None
    routes = app.middleware_stack
    if _name_class(routes) == _PROBE:
        routes = routes.app
    own: Any = getattr(app.__class__, "app", None)
    is_own = getattr(routes, "__self__", None) is app and routes.__func__ is own
    return app if is_own else None


def _list_routes(routes: list[Any]) -> Iterator[Any]:
    """List routes, with those of included routers, in the order in which they are tried."""
    for route in routes:
        if _name_class(route) == _INCLUDED_ROUTER and _name_class(route.original_router) in _ROUTERS:
            yield from _list_routes(route.effective_candidates())
        else:
            yield route


def _name_route(route: Any) -> dict[str, Any]:
    """Name a route as its router writes it into the scope."""
    if _name_class(route) != _INCLUDED_ROUTE:
        return {"route": route}
    return {"route": route.original_route, "fastapi": {"effective_route_context": route}}


def _is_plain(route: Any) -> bool:
    """Whether a route is one of Starlette's or FastAPI's own, which takes a request by path and method."""
    if _name_class(route) == _INCLUDED_ROUTE:
        return _name_class(route.original_route) == "fastapi.routing.APIRoute"
    return _name_class(route) in _ROUTES


def _find_first_price(route: Any) -> Offer | None:
    """Find the offer whose payment is the first thing that a route asks for; None for any other route."""
    if not _is_plain(route) or not _runs_endpoint(route.app):
        return None
    dependant = getattr(route, "dependant", None)
    price = route.endpoint if dependant is None else _find_first_dependency(dependant)
    if dependant is None:
        is_first = isinstance(price, FunctionType) and is_price(price)
    else:
        is_first = _name_class(price) == _DEPENDENCY and route.body_field is None
    if not is_first:
        return None
    offer = getattr(price, OFFER)
    handler = inspect_handler(route.endpoint, dependant, dependencies=getattr(route, "dependencies", ()))
    is_only = handler.offers == (offer,) and not handler.mistake
    return offer if is_only and not isinstance(offer, OfferChoice) else None


def _runs_endpoint(app: Any) -> bool:
    # By its code: `functools.wraps` copies names.
    is_plain = isinstance(app, FunctionType) and app.__code__.co_qualname == _RUNS_ENDPOINT
    return is_plain and app.__globals__.get("__name__") in _MODULES


def _find_first_dependency(dependant: Any) -> Any:
    """Find what FastAPI calls first for a route: dependencies in their order, each after its own."""
    while dependant.dependencies:
        dependant = dependant.dependencies[0]
    return dependant.call


def _has_overrides(route: Any) -> bool:
    """Whether dependencies are replaced, which tests do at any time."""
    return bool(getattr(getattr(route, "dependency_overrides_provider", None), "dependency_overrides", None))


def _name_class(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
