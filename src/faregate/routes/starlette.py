"""Starlette's routes as an inventory: mounts, hosts and routers at any depth, with the paywalls between."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from inspect import isclass
from itertools import chain
from typing import Any

from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.routing import BaseRoute, Host, Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles

from faregate.middleware.handlers import Handler, inspect_handler, name_handler, pick_method
from faregate.routes import WEBSOCKET, RouteInfo, RouteTable
from faregate.routes.wrappers import (
    ANYTHING,
    Around,
    PaywallLayer,
    apply_paywalls,
    build_unlisted_app,
    find_answering_middleware,
    find_redundant_paywalls,
    find_unprotected,
    get_paywall_layer,
    list_declared_middleware,
    list_inner_paywalls,
    list_outer_middleware,
    unwrap,
)

Expand = Callable[[Any], Iterable[tuple[type[BaseRoute], Any]]]
"""The routes of a router: what kind each is, and an object that says what it says."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class MountPoint:
    """Where in the whole application one is, and behind which middleware."""

    root: str = ""
    host: str = ""
    around: Around = ()

    def below(self, route: Any) -> "MountPoint":
        host = getattr(route, "host", "")
        return replace(self, host=host) if host else replace(self, root=self.root + route.path)

    def behind(self, *around: Around) -> "MountPoint":
        return replace(self, around=[*self.around, *chain(*around)])


def plain(router: Any) -> Iterator[tuple[type[BaseRoute], Any]]:
    """Starlette's own routers keep what they were given."""
    for route in router.routes:
        yield type(route), route


def list_routes(app: Any, expand: Expand = plain) -> RouteTable:
    """What a Starlette application or router sells, and what would give it away.

    Raises `ConfigurationError`.
    """
    inventory = _stock(app, MountPoint(), expand)
    faults = (*inventory.faults, *find_unprotected(inventory))
    return replace(inventory, faults=faults, mistakes=tuple(dict.fromkeys(inventory.mistakes)))


def _stock(app: Any, spot: MountPoint, expand: Expand) -> RouteTable:
    """An application with everything that is wrapped around it."""
    wrapped = unwrap(app)
    core = wrapped[-1]
    spot = spot.behind(list_outer_middleware(app), list_declared_middleware(core))
    fronts = [*_fronts(wrapped), *list_inner_paywalls(core)]
    if isinstance(core, Starlette | Router):
        found = _together(_shelved(kind, route, spot, expand) for kind, route in expand(_router(core)))
    else:
        found = _leaf(core, spot)
    mistakes = (
        *found.mistakes,
        *find_answering_middleware(spot.around),
        *find_redundant_paywalls(list_declared_middleware(core)),
    )
    return apply_paywalls(fronts, replace(found, mistakes=mistakes), spot.root)


def _fronts(wrapped: Iterable[Any]) -> list[PaywallLayer]:
    return [front for layer in wrapped if (front := get_paywall_layer(layer)) is not None]


def _router(core: Any) -> Any:
    return getattr(core, "router", core)


def _together(inventories: Iterable[RouteTable]) -> RouteTable:
    parts = list(inventories)
    return RouteTable(
        tuple(route for part in parts for route in part.routes),
        tuple(name for part in parts for name in part.unmatched),
        tuple(fault for part in parts for fault in part.faults),
        tuple(mistake for part in parts for mistake in part.mistakes),
    )


def _shelved(kind: type[BaseRoute], route: Any, spot: MountPoint, expand: Expand) -> RouteTable:
    if issubclass(kind, Mount | Host):
        return _stock(route.app, spot.below(route), expand)
    if not issubclass(kind, Route | WebSocketRoute):
        return build_unlisted_app(route, spot.root + getattr(route, "path", ANYTHING), spot.host)
    path, faults, mistakes = spot.root + route.path, list[str](), dict[str, None]()
    rows = list[RouteInfo]()
    for methods, handler in _sold_by(kind, route):
        rows.append(_row(path, methods, handler, route, spot, faults))
        if handler.mistake:
            mistakes[handler.mistake] = None
    app = getattr(route, "app", None)
    mistakes.update(dict.fromkeys(find_answering_middleware(spot.behind(list_outer_middleware(app)).around)))
    fronts = _fronts(unwrap(app))
    return apply_paywalls(fronts, RouteTable(tuple(rows), (), tuple(faults), tuple(mistakes)), spot.root)


def _row(
    path: str, methods: tuple[str, ...], handler: Handler, route: Any, spot: MountPoint, faults: list[str]
) -> RouteInfo:
    offers = handler.offers
    offer = offers[0] if offers else None
    closed = bool(offers) and (methods == WEBSOCKET or len(offers) > 1)
    row = RouteInfo(
        path,
        methods,
        name_handler(route.endpoint),
        offer,
        "refused" if closed else "paid" if offers else "free",
        spot.host,
    )
    if len(offers) > 1:
        named = " and ".join(repr(one.sells) for one in offers)
        faults.append(f"{row.verbs} {row.place} sells {named}: nobody can buy it. Keep one offer.")
    return row


def _sold_by(kind: type[BaseRoute], route: Any) -> Iterator[tuple[tuple[str, ...], Handler]]:
    """Methods and their handler: one pair for a function, one for each offer of an endpoint class."""
    dependant = getattr(route, "dependant", None)
    if issubclass(kind, WebSocketRoute):
        yield WEBSOCKET, inspect_handler(route.endpoint, dependant)
    elif isclass(route.endpoint) and issubclass(route.endpoint, HTTPEndpoint):
        yield from _by_method(route.endpoint, route)
    else:
        yield _methods(route.methods or ()), inspect_handler(route.endpoint, dependant)


def _by_method(endpoint: type[HTTPEndpoint], route: Any) -> Iterator[tuple[tuple[str, ...], Handler]]:
    groups: dict[Handler, list[str]] = {}
    for method in _METHODS:
        handler = pick_method(endpoint, method)
        if handler is not endpoint and method in (route.methods or _METHODS):
            groups.setdefault(inspect_handler(handler, getattr(route, "dependant", None)), []).append(method)
    for handler, methods in groups.items():
        yield _methods(methods), handler


def _methods(names: Iterable[str]) -> tuple[str, ...]:
    """Without HEAD where it is sold as GET is."""
    return tuple(sorted(set(names) - ({"HEAD"} if "GET" in names else set())))


def _leaf(app: Any, spot: MountPoint) -> RouteTable:
    """A mounted application without routes of its own, such as `StaticFiles`."""
    [row] = build_unlisted_app(app, spot.root + ANYTHING, spot.host).routes
    methods = ("GET",) if isinstance(app, StaticFiles) else ()
    return RouteTable((replace(row, methods=methods),))
