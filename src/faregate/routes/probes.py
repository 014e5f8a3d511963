"""Probes around the routers of an application, which tell the paywall what its routes answered.

A response that leaves unpaid is a route's own answer, or it comes from something between the paywall and
the routers, which may have kept the result of a paid handler.
"""

from collections.abc import Awaitable
from functools import partial
from types import FunctionType
from typing import Any

from faregate.checkout.asgi_responder import find_responder
from faregate.checkout.asgi_scope import ASGIApp, Receive, Scope, Send
from faregate.routes.handler_resolver import find_fallback
from faregate.routes.nested_routers import list_routers
from faregate.routes.wrappers import get_router, has_app, list_chains

_MAX_LAYERS = 100
_MAX_ENDPOINTS = 4096


class RouterProbe:
    """Stands directly around the routes of a router, inside all of its middleware."""

    def __init__(self, app: ASGIApp, router: Any) -> None:
        self.app = app
        self._router = router
        self._endpoints: dict[int, tuple[Any, bool]] = {}
        self._wrapped: dict[int, Any] = {}
        """The endpoints of routes that have middleware of their own, by id."""

    def add_route(self, route: Any) -> None:
        """Put a probe inside the middleware of a route, as `Route(middleware=[...])` has it."""
        endpoint, outermost = getattr(route, "endpoint", None), getattr(route, "app", None)
        # Without middleware it is the endpoint, or the function or class that Starlette makes of it.
        if endpoint is None or outermost is endpoint or isinstance(outermost, FunctionType | type | None):
            return
        self._wrapped[id(endpoint)] = endpoint
        layers = _list_layers(outermost)
        if len(layers) > 1 and not any(isinstance(layer, RouterProbe) for layer in layers):
            layers[-2].app = _RouteProbe(layers[-1], self._router)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        responder = find_responder(scope)
        if responder is not None:
            send = partial(responder.relay, self, partial(self._is_routed, scope), send)
            if responder.has_payment:
                return responder.call_routes(self, self.app, scope, receive, send)
        return self.app(scope, receive, send)

    def _is_routed(self, scope: Scope) -> bool:
        """Whether a route answered the request of this scope, and no application that the router leads to.

        Such an application has middleware of its own. The router has written the endpoint into the scope.
        """
        endpoint = scope.get("endpoint")
        if id(endpoint) in self._wrapped:
            return False  # the middleware of the route answered: the probe inside saw nothing
        if endpoint is None:
            endpoint = find_fallback(self._router)
        probed = self._endpoints.get(id(endpoint))
        if probed is None:
            if len(self._endpoints) >= _MAX_ENDPOINTS:
                self._endpoints.clear()
            # Kept with the endpoint, so that its id is not given to another object.
            probed = self._endpoints[id(endpoint)] = (endpoint, not self._leads_on(endpoint))
        return probed[1]

    def _leads_on(self, endpoint: Any) -> bool:
        return has_app(endpoint) and any(
            get_router(layers[-1]) is not self._router for layers in list_chains(endpoint)
        )


class _RouteProbe(RouterProbe):
    """Stands inside the middleware of one route: what it sees is the route's own answer."""

    def _is_routed(self, scope: Scope) -> bool:
        return True


def add_probes(app: Any) -> bool:
    """Put a probe around each router of an application, unless it has one. Whether there is any router."""
    probed = [
        (router, routes)
        for router, routes in list_routers(app)
        if callable(getattr(router, "middleware_stack", None))
    ]
    for router, routes in probed:
        probe = _add_probe(router)
        for route in routes:
            probe.add_route(route)
    return bool(probed)


def _add_probe(router: Any) -> RouterProbe:
    layers = _list_layers(router.middleware_stack, router)
    for layer in layers:
        if isinstance(layer, RouterProbe):
            return layer
    probe = RouterProbe(layers[-1], router)
    if len(layers) > 1:
        layers[-2].app = probe
    else:
        router.middleware_stack = probe
    return probe


def _list_layers(outermost: Any, router: Any = None) -> list[Any]:
    """The middleware from the outermost on, as far as it names what it calls; then what it calls."""
    layers = [outermost]
    while len(layers) < _MAX_LAYERS:
        inner: Any = getattr(layers[-1], "__dict__", {}).get("app")
        if not callable(inner) or (router is not None and inner is router):
            break
        layers.append(inner)
    return layers
