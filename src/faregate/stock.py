"""Starlette's routes as an inventory: mounts, hosts and routers at any depth, with the paywalls between."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from inspect import isclass
from typing import Any

from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.routing import BaseRoute, Host, Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles

from faregate.asgi import PaywallMiddleware
from faregate.fronts import (
    ANYTHING,
    Front,
    behind,
    front_of,
    front_to_be,
    handler_name,
    layers,
    opaque,
    unguarded,
)
from faregate.inventory import WEBSOCKET, Inventory, Listed
from faregate.model import Offer

Expand = Callable[[Any], Iterable[tuple[type[BaseRoute], Any]]]
"""The routes of a router: what kind each is, and an object that says what it says."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Spot:
    """Where in the whole application one is."""

    root: str = ""
    host: str = ""

    def below(self, route: Any) -> "Spot":
        host = getattr(route, "host", "")
        return Spot(self.root, host) if host else Spot(self.root + route.path, self.host)


def plain(router: Any) -> Iterator[tuple[type[BaseRoute], Any]]:
    """Starlette's own routers keep what they were given."""
    for route in router.routes:
        yield type(route), route


def inventory_of(app: Any, expand: Expand = plain) -> Inventory:
    """What a Starlette application or router sells. Raises `Misconfigured`."""
    inventory = _stock(app, Spot(), expand)
    return replace(inventory, faults=(*inventory.faults, *unguarded(inventory)))


def _stock(app: Any, spot: Spot, expand: Expand) -> Inventory:
    """An application with everything that is wrapped around it."""
    wrapped = layers(app)
    core = wrapped[-1]
    fronts = [*_fronts(wrapped), *_inner_fronts(core)]
    if isinstance(core, Starlette | Router):
        found = _together(_shelved(kind, route, spot, expand) for kind, route in expand(_router(core)))
    else:
        found = _leaf(core, spot)
    return behind(fronts, found, spot.root)


def _fronts(wrapped: Iterable[Any]) -> list[Front]:
    return [front for layer in wrapped if (front := front_of(layer)) is not None]


def _inner_fronts(core: Any) -> list[Front]:
    """The middleware that an application or a router will put, or has put, around its own routes."""
    found: list[Front] = []
    if isinstance(core, Starlette):
        for entry in core.user_middleware:
            if isclass(entry.cls) and issubclass(entry.cls, PaywallMiddleware):
                found.append(front_to_be(entry.args, entry.kwargs))
    return [*found, *_fronts(layers(getattr(_router(core), "middleware_stack", None)))]


def _router(core: Any) -> Any:
    return getattr(core, "router", core)


def _together(inventories: Iterable[Inventory]) -> Inventory:
    parts = list(inventories)
    return Inventory(
        tuple(route for part in parts for route in part.routes),
        tuple(name for part in parts for name in part.unmatched),
        tuple(fault for part in parts for fault in part.faults),
    )


def _shelved(kind: type[BaseRoute], route: Any, spot: Spot, expand: Expand) -> Inventory:
    if issubclass(kind, Mount | Host):
        return _stock(route.app, spot.below(route), expand)
    if not issubclass(kind, Route | WebSocketRoute):
        return opaque(route, spot.root + getattr(route, "path", ANYTHING), spot.host)
    path, faults = spot.root + route.path, list[str]()
    rows = tuple(
        _row(path, methods, offers, route, spot, faults) for methods, offers in _sold_by(kind, route)
    )
    fronts = _fronts(layers(getattr(route, "app", None)))
    return behind(fronts, Inventory(rows, faults=tuple(faults)), spot.root)


def _row(
    path: str, methods: tuple[str, ...], offers: list[Offer], route: Any, spot: Spot, faults: list[str]
) -> Listed:
    offer = offers[0] if offers else None
    closed = bool(offers) and (methods == WEBSOCKET or len(offers) > 1)
    row = Listed(
        path,
        methods,
        handler_name(route.endpoint),
        offer,
        "refused" if closed else "paid" if offers else "free",
        spot.host,
    )
    if len(offers) > 1:
        named = " and ".join(repr(one.sells) for one in offers)
        faults.append(f"{row.verbs} {row.place} sells {named}: nobody can buy it. Keep one offer.")
    return row


def _sold_by(kind: type[BaseRoute], route: Any) -> Iterator[tuple[tuple[str, ...], list[Offer]]]:
    """Methods and their offers: one pair for a function, one for each offer of an endpoint class."""
    if issubclass(kind, WebSocketRoute):
        yield WEBSOCKET, offers_of(route.endpoint, route)
    elif isclass(route.endpoint) and issubclass(route.endpoint, HTTPEndpoint):
        yield from _by_method(route.endpoint, route)
    else:
        yield _methods(route.methods or ()), offers_of(route.endpoint, route)


def _by_method(endpoint: type[HTTPEndpoint], route: Any) -> Iterator[tuple[tuple[str, ...], list[Offer]]]:
    groups: dict[tuple[Offer, ...], list[str]] = {}
    for method in _METHODS:
        handler = getattr(endpoint, method.lower(), None)
        if method == "HEAD" and handler is None:
            handler = getattr(endpoint, "get", None)
        if handler is not None and method in (route.methods or _METHODS):
            groups.setdefault(tuple(offers_of(handler, route)), []).append(method)
    for offers, methods in groups.items():
        yield _methods(methods), list(offers)


def _methods(names: Iterable[str]) -> tuple[str, ...]:
    """Without HEAD where it is sold as GET is."""
    return tuple(sorted(set(names) - ({"HEAD"} if "GET" in names else set())))


def offers_of(endpoint: Any, route: Any = None) -> list[Offer]:
    """What a handler sells: by its own mark, or by any of the dependencies that are solved before it."""
    found = [*_mark(endpoint), *_depended(getattr(route, "dependant", None))]
    return list(dict.fromkeys(found))


def _mark(handler: Any) -> Iterator[Offer]:
    while isinstance(handler, partial):
        handler = handler.func
    sold = getattr(handler, "faregate_offer", None)
    if isinstance(sold, Offer):
        yield sold


def _depended(dependant: Any) -> Iterator[Offer]:
    for one in getattr(dependant, "dependencies", ()):
        yield from _mark(one.call)
        yield from _depended(one)


def _leaf(app: Any, spot: Spot) -> Inventory:
    """A mounted application without routes of its own, such as `StaticFiles`."""
    [row] = opaque(app, spot.root + ANYTHING, spot.host).routes
    methods = ("GET",) if isinstance(app, StaticFiles) else ()
    return Inventory((replace(row, methods=methods),))
