"""Probes around the routers of an application, which tell the paywall what its routes answered.

A response that leaves unpaid is a route's own answer, or it comes from something between the paywall and
the routers, which may have kept the result of a paid handler.
"""

from functools import partial
from typing import Any

from faregate.checkout.asgi_responder import find_responder
from faregate.checkout.asgi_scope import ASGIApp, Receive, Scope, Send
from faregate.routes.changes import list_routers
from faregate.routes.dispatch import find_fallback
from faregate.routes.wrappers import get_router, has_app, list_chains

_MAX_LAYERS = 100
_MAX_ENDPOINTS = 4096


class RouterProbe:
    """Stands directly around the routes of a router, inside all of its middleware."""

    def __init__(self, app: ASGIApp, router: Any) -> None:
        self.app = app
        self._router = router
        self._endpoints: dict[int, tuple[Any, bool]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        responder = find_responder(scope)
        if responder is not None:
            send = partial(responder.relay, self, partial(self._is_routed, scope), send)
        await self.app(scope, receive, send)

    def _is_routed(self, scope: Scope) -> bool:
        """Whether a route answered the request of this scope, and no application that the router leads to.

        Such an application has middleware of its own. The router has written the endpoint into the scope.
        """
        endpoint = scope.get("endpoint")
        if endpoint is None:
            endpoint = find_fallback(self._router)
        known = self._endpoints.get(id(endpoint))
        if known is None:
            if len(self._endpoints) >= _MAX_ENDPOINTS:
                self._endpoints.clear()
            # Kept with the endpoint, so that its id is not given to another object.
            known = self._endpoints[id(endpoint)] = (endpoint, not self._leads_on(endpoint))
        return known[1]

    def _leads_on(self, endpoint: Any) -> bool:
        return has_app(endpoint) and any(
            get_router(layers[-1]) is not self._router for layers in list_chains(endpoint)
        )


def add_probes(app: Any) -> bool:
    """Put a probe around each router of an application, unless it has one. Whether there is any router."""
    routers = [one for one, _ in list_routers(app) if callable(getattr(one, "middleware_stack", None))]
    for router in routers:
        _add_probe(router)
    return bool(routers)


def _add_probe(router: Any) -> None:
    layers = _list_layers(router)
    if any(isinstance(layer, RouterProbe) for layer in layers):
        return
    probe = RouterProbe(layers[-1], router)
    if len(layers) > 1:
        layers[-2].app = probe
    else:
        router.middleware_stack = probe


def _list_layers(router: Any) -> list[Any]:
    """The middleware of a router, outermost first, as far as it names what it calls; then what it calls."""
    layers = [router.middleware_stack]
    while len(layers) < _MAX_LAYERS:
        inner: Any = getattr(layers[-1], "__dict__", {}).get("app")
        if not callable(inner) or inner is router:
            break
        layers.append(inner)
    return layers
