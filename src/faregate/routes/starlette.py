"""List Starlette's routes: mounts, hosts and routers at any depth, with the paywalls between them."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import isclass
from itertools import chain
from typing import Any

from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.routing import BaseRoute, Host, Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles

from faregate.errors import ConfigurationError
from faregate.middleware.handlers import Handler, inspect_handler, name_handler, pick_method
from faregate.routes import WEBSOCKET, RouteInfo, RouteTable
from faregate.routes.access import build_row, describe_several_offers
from faregate.routes.wrappers import (
    ANYTHING,
    Around,
    apply_paywalls,
    build_unlisted_app,
    find_answering_middleware,
    find_redundant_paywalls,
    find_unprotected,
    list_declared_middleware,
    list_inner_paywalls,
    list_outer_middleware,
    list_paywalls,
    unwrap,
)

Expand = Callable[[Any], Iterable[tuple[type[BaseRoute], Any]]]
"""Lists the routes of a router: the class of each, and an object with its attributes."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class MountPoint:
    """A place in the whole application, and the middleware around it, outermost first."""

    root: str = ""
    host: str = ""
    around: Around = ()

    def below(self, route: Any) -> "MountPoint":
        host = getattr(route, "host", "")
        return replace(self, host=host) if host else replace(self, root=self.root + route.path)

    def behind(self, *around: Around) -> "MountPoint":
        return replace(self, around=[*self.around, *chain(*around)])


def expand_router(router: Any) -> Iterator[tuple[type[BaseRoute], Any]]:
    """The routes of one of Starlette's own routers, which keeps them as they were added."""
    for route in router.routes:
        yield type(route), route


def list_routes(app: Any, expand: Expand = expand_router) -> RouteTable:
    """List what a Starlette application or router sells, and what would give it away.

    Raises `ConfigurationError`.
    """
    if not callable(app):
        raise ConfigurationError(f"list_routes takes an application or a router, not {type(app).__name__}.")
    table = _list_app(app, MountPoint(), expand)
    faults = (*table.faults, *find_unprotected(table), *_find_sold_mcp(table))
    return replace(table, faults=faults, mistakes=tuple(dict.fromkeys(table.mistakes)))


def _list_app(app: Any, mount: MountPoint, expand: Expand) -> RouteTable:
    layers = unwrap(app)
    core = layers[-1]
    mount = mount.behind(list_outer_middleware(app), list_declared_middleware(core))
    paywalls = [*list_paywalls(layers), *list_inner_paywalls(core)]
    if isinstance(core, Starlette | Router):
        router = getattr(core, "router", core)
        table = _merge(_list_route(kind, route, mount, expand) for kind, route in expand(router))
    else:
        table = _list_leaf(core, mount)
    mistakes = (
        *table.mistakes,
        *find_answering_middleware(mount.around),
        *find_redundant_paywalls(list_declared_middleware(core)),
    )
    return apply_paywalls(paywalls, replace(table, mistakes=mistakes), mount.root)


def _merge(tables: Iterable[RouteTable]) -> RouteTable:
    parts = list(tables)
    return RouteTable(
        tuple(route for part in parts for route in part.routes),
        tuple(name for part in parts for name in part.unmatched),
        tuple(fault for part in parts for fault in part.faults),
        tuple(mistake for part in parts for mistake in part.mistakes),
    )


def _list_route(kind: type[BaseRoute], route: Any, mount: MountPoint, expand: Expand) -> RouteTable:
    if issubclass(kind, Mount | Host):
        return _list_app(route.app, mount.below(route), expand)
    if not issubclass(kind, Route | WebSocketRoute):
        return build_unlisted_app(route, mount.root + getattr(route, "path", ANYTHING), mount.host)
    path, faults, mistakes = mount.root + route.path, list[str](), dict[str, None]()
    rows = list[RouteInfo]()
    for methods, handler in _group_methods(kind, route):
        rows.append(_build_row(path, methods, handler, route, mount, faults))
        if handler.mistake:
            mistakes[handler.mistake] = None
    app = getattr(route, "app", None)
    mistakes.update(dict.fromkeys(find_answering_middleware(mount.behind(list_outer_middleware(app)).around)))
    table = RouteTable(tuple(rows), (), tuple(faults), tuple(mistakes))
    return apply_paywalls(list_paywalls(unwrap(app)), _merge([table, *_list_tools(route, path)]), mount.root)


def _list_tools(route: Any, path: str) -> Iterator[RouteTable]:
    """The tools of an MCP server, if the route is its endpoint."""
    if "mcp.server" in sys.modules and name_handler(route.endpoint).startswith(_MCP):
        # By name: adapters import this package, and the SDK may not be installed.
        yield from import_module("faregate.mcp.tools").list_endpoint(route.endpoint, path)


_MCP = ("mcp.", "fastmcp.")
"""Where the endpoints of MCP servers are made."""


def _find_sold_mcp(table: RouteTable) -> Iterator[str]:
    for route in table.routes:
        if route.access == "paid" and route.handler.startswith(_MCP):
            yield (
                f"{route.verbs} {route.place} is an MCP endpoint, and its path is sold as {route.sells!r}: "
                "every message is charged, and so is a tool that fails, because its error is an HTTP 200. "
                "Take the prefix away and sell the tools: faregate.mcp."
            )


def _build_row(
    path: str, methods: tuple[str, ...], handler: Handler, route: Any, mount: MountPoint, faults: list[str]
) -> RouteInfo:
    row = build_row(path, methods, name_handler(route.endpoint), handler.offers, mount.host)
    if len(handler.offers) > 1:
        faults.append(describe_several_offers(row, handler.offers))
    return replace(row, access="refused") if methods == WEBSOCKET and handler.offers else row


def _group_methods(kind: type[BaseRoute], route: Any) -> Iterator[tuple[tuple[str, ...], Handler]]:
    """Methods with their handler: one pair for a function, one for each offer of an endpoint class."""
    dependant = getattr(route, "dependant", None)
    if issubclass(kind, WebSocketRoute):
        yield WEBSOCKET, inspect_handler(route.endpoint, dependant)
    elif isclass(route.endpoint) and issubclass(route.endpoint, HTTPEndpoint):
        yield from _group_endpoint_methods(route.endpoint, route)
    else:
        yield _sort_methods(route.methods or ()), inspect_handler(route.endpoint, dependant)


def _group_endpoint_methods(
    endpoint: type[HTTPEndpoint], route: Any
) -> Iterator[tuple[tuple[str, ...], Handler]]:
    groups: dict[Handler, list[str]] = {}
    for method in _METHODS:
        handler = pick_method(endpoint, method)
        if handler is not endpoint and method in (route.methods or _METHODS):
            groups.setdefault(inspect_handler(handler, getattr(route, "dependant", None)), []).append(method)
    for handler, methods in groups.items():
        yield _sort_methods(methods), handler


def _sort_methods(names: Iterable[str]) -> tuple[str, ...]:
    """The methods without HEAD, where GET includes it."""
    return tuple(sorted(set(names) - ({"HEAD"} if "GET" in names else set())))


def _list_leaf(app: Any, mount: MountPoint) -> RouteTable:
    """A mounted application without routes of its own, such as `StaticFiles`."""
    [row] = build_unlisted_app(app, mount.root + ANYTHING, mount.host).routes
    methods = ("GET",) if isinstance(app, StaticFiles) else ()
    return RouteTable((replace(row, methods=methods),))
