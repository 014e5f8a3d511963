"""List Starlette's routes: mounts, hosts and routers at any depth, with the paywalls between them."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from inspect import isclass, isroutine
from itertools import chain
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import CONVERTOR_TYPES
from starlette.endpoints import HTTPEndpoint
from starlette.routing import PARAM_REGEX, BaseRoute, Host, Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles

from faregate.checkout.handlers import Handler, inspect_handler, name_handler, pick_method
from faregate.checkout.wrapped_callables import peel
from faregate.core.models import Offer
from faregate.errors import ConfigurationError
from faregate.routes import WEBSOCKET, RouteInfo, RouteTable
from faregate.routes.handler_resolver import RouteMatch, find_fallback, list_matches
from faregate.routes.pricing import build_row, describe_several_offers
from faregate.routes.shadows import HOSTS, NO_VALUE, Parameter, Part, build_samples, describe_shadows
from faregate.routes.wrappers import (
    ANYTHING,
    Around,
    apply_paywalls,
    build_unlisted_app,
    describe_layers,
    find_answering_middleware,
    find_redundant_paywalls,
    find_unprotected,
    get_router,
    has_app,
    list_chains,
    list_declared_apps,
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
    entered: tuple[int, ...] = ()
    """The routers above, by their ids."""
    listed: set[int] = field(default_factory=set[int])
    """All routers that were listed so far, anywhere."""

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
    mistakes = (*table.mistakes, *_find_shadowed(app, table.routes))
    return replace(table, faults=faults, mistakes=tuple(dict.fromkeys(mistakes)))


def _list_app(app: Any, mount: MountPoint, expand: Expand) -> RouteTable:
    """List all applications that a layer leads to, each behind the layers on its own way.

    A layer may also hold an application that is listed already: one that it stands in, or that is mounted.
    """
    tables: list[RouteTable] = []
    for at, layers in enumerate(list_chains(app)):
        router = id(get_router(layers[-1]))
        if router in mount.entered or (at and router in mount.listed):
            continue
        mount.listed.add(router)
        inner = replace(mount, entered=(*mount.entered, router))
        tables.append(_list_core(layers, inner.behind(describe_layers(layers[:-1])), expand))
    return _merge(tables)


def _list_core(layers: list[Any], mount: MountPoint, expand: Expand) -> RouteTable:
    core = layers[-1]
    mount = mount.behind(list_declared_middleware(core))
    paywalls = [*list_paywalls(layers), *list_inner_paywalls(core)]
    if isinstance(core, Starlette | Router):
        router = get_router(core)
        tables = [_list_route(kind, route, mount, expand) for kind, route in expand(router)]
        fallback = find_fallback(router)
        if has_app(fallback):
            tables.append(_list_app(fallback, mount, expand))
        tables += [_list_held(side, mount, expand) for side in list_declared_apps(core)]
        table = _merge(tables)
    else:
        table = _list_leaf(core, mount)
    mistakes = (
        *table.mistakes,
        *find_answering_middleware(mount.around),
        *find_redundant_paywalls(list_declared_middleware(core)),
    )
    return apply_paywalls(paywalls, replace(table, mistakes=mistakes), mount.root)


def _list_held(app: Any, mount: MountPoint, expand: Expand) -> RouteTable:
    """List an application that middleware or an endpoint holds, unless it is listed where it is mounted."""
    router = id(get_router(unwrap(app)[-1]))
    return RouteTable(()) if router in mount.listed else _list_app(app, mount, expand)


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
        if has_app(route):
            return _list_held(route, mount, expand)
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
    inner = [_list_held(route.endpoint, mount, expand)] if _hands_on(route.endpoint) else []
    table = _merge([table, *_list_tools(route, path), *inner])
    return apply_paywalls(list_paywalls(unwrap(app)), table, mount.root)


def _hands_on(endpoint: Any) -> bool:
    """Whether an endpoint is an object that hands requests on. A function may only know of an app."""
    return not isclass(endpoint) and not isroutine(peel(endpoint)) and has_app(endpoint)


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
    if len(handler.offers) > 1 and not handler.mistake:
        faults.append(describe_several_offers(row, handler.offers))
    is_refused = methods == WEBSOCKET and handler.offers
    return replace(
        row,
        endpoint=route.endpoint,
        access="refused" if is_refused else row.access,
        is_hidden=not getattr(route, "include_in_schema", True),
    )


def _group_methods(kind: type[BaseRoute], route: Any) -> Iterator[tuple[tuple[str, ...], Handler]]:
    """Methods with their handler: one pair for a function, one for each offer of an endpoint class."""
    dependant = getattr(route, "dependant", None)
    named = getattr(route, "dependencies", ())
    if issubclass(kind, WebSocketRoute):
        yield WEBSOCKET, inspect_handler(route.endpoint, dependant, dependencies=named)
    elif isclass(route.endpoint) and issubclass(route.endpoint, HTTPEndpoint):
        yield from _group_endpoint_methods(route.endpoint, route)
    else:
        handler = inspect_handler(route.endpoint, dependant, dependencies=named)
        yield _sort_methods(route.methods or ()), handler


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


# Paid routes that are never reached


def _find_shadowed(app: Any, routes: Iterable[RouteInfo]) -> Iterator[str]:
    shadows: dict[tuple[str, str, str], list[str]] = {}
    for row in routes:
        if row.access != "paid" or row.offer is None:
            continue
        for method in _list_asked_methods(row.methods):
            other = _find_shadow(app, row, row.offer, method)
            if other is not None:
                shadows.setdefault((row.place, row.sells, _name_match(other)), []).append(method)
    yield from describe_shadows(shadows)


def _list_asked_methods(methods: tuple[str, ...]) -> tuple[str, ...]:
    """The methods of a row, with HEAD, which GET may include. OPTIONS is not sold."""
    with_head = dict.fromkeys((*(methods or ("GET", "POST")), *(("HEAD",) if "GET" in methods else ())))
    return tuple(method for method in with_head if method != "OPTIONS")


def _find_shadow(app: Any, row: RouteInfo, offer: Offer, method: str) -> RouteMatch | None:
    """What answers all requests for a route in its place."""
    shadow = None
    for scope in _build_scopes(row, method):
        try:
            other = _find_earlier(app, scope, offer)
        except Exception:  # of a convertor that the application made
            return None
        if other is None:
            return None
        shadow = shadow or other
    return shadow


def _find_earlier(app: Any, scope: dict[str, Any], offer: Offer) -> RouteMatch | None:
    """What answers a request before a route that sells the offer; None if that answers, or there is none."""
    firsts = list(list_matches(app, scope, first_only=True))
    if any(_sells(match, scope["method"], offer) for match in firsts):
        return None
    earlier = None
    for match in list_matches(app, scope):
        earlier = match if match in firsts else earlier
        if _sells(match, scope["method"], offer):
            return earlier
    return None


def _sells(match: RouteMatch, method: str, offer: Offer) -> bool:
    if offer in match.prefix_offers:
        return True
    handler = pick_method(match.endpoint, method)
    return offer in inspect_handler(handler, getattr(match.route, "dependant", None)).offers


def _name_match(match: RouteMatch) -> str:
    name, path = name_handler(match.endpoint or match.route), getattr(match.route, "path", "")
    return f"{name} ({path})" if path else name


def _build_scopes(row: RouteInfo, method: str) -> Iterator[dict[str, Any]]:
    """Requests for a route."""
    hosts = build_samples(_split_pattern(row.host.partition(":")[0]), HOSTS) if row.host else HOSTS
    for path in build_samples(_split_pattern(row.path)):
        for host in hosts:
            headers = [(b"host", host.encode())]
            yield {"type": "http", "method": method, "path": path, "root_path": "", "headers": headers}


def _split_pattern(pattern: str) -> list[Part]:
    if pattern.endswith(ANYTHING):
        return [*_split_pattern(pattern.removesuffix("*")), Parameter(".+")]
    parts: list[Part] = []
    end = 0
    for parameter in PARAM_REGEX.finditer(pattern):
        convertor = CONVERTOR_TYPES.get((parameter[2] or ":str").removeprefix(":"))
        parts += [pattern[end : parameter.start()], Parameter(convertor.regex if convertor else NO_VALUE)]
        end = parameter.end()
    return [*parts, pattern[end:]]
