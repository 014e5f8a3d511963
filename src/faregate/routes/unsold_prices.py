"""Prices that no route sells, such as one that a dependency returns and nothing asks for.

The paywall knows by the routes which requests are sold, and withholds nothing of other requests. So such a
price protects nothing.
"""

import gc
import logging
import sys
from collections.abc import Iterable, Iterator
from inspect import isclass
from types import FunctionType
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from faregate.checkout.handlers import OFFER, list_parts, name_handler
from faregate.checkout.wrapped_callables import walk
from faregate.logs import log
from faregate.routes.nested_routers import list_routers

_unplaced = WeakValueDictionary[int, Any]()
"""The prices of Starlette and FastAPI that were made, by their ids, until they are seen on a route."""
_told = WeakSet[Any]()
_METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "__call__")


def note_price(price: Any) -> None:
    """Note a price that was made: a function with `@paid`, or a dependency of FastAPI."""
    _unplaced[id(price)] = price


def find_unsold(app: Any = None) -> list[Any]:
    """Find the prices that are on no route: of `app`, or of any other application in this process."""
    if app is not None:
        _remove_placed(walk(app))
        _remove_placed(_list_placed(router for router, _ in list_routers(app)))
    if _unplaced:
        gc.collect()  # what was thrown away, as with an application that a test has made
        _remove_placed(_list_placed(_list_living_routers()))
    return list(_unplaced.values())


def describe_unsold() -> Iterator[str]:
    """Describe the prices of this process that are on no route."""
    yield from map(_describe, find_unsold())


def warn_unsold(app: Any) -> None:
    """Log each price that is on no route, once in a process: a handler may still ask for it by itself."""
    if any(price not in _told for price in _unplaced.values()):
        for price in find_unsold(app):
            if price not in _told:
                _told.add(price)
                log("sale", logging.WARNING, _describe(price))


def _describe(price: Any) -> str:
    written, place = f"Depends({price!r})", "name it on a route, or in a parameter of its function"
    if isinstance(price, FunctionType):
        written, place = f"@paid on {name_handler(price)}", "make the function the endpoint of a route"
    return (
        f"{written} sells {getattr(price, OFFER).sells!r}, and no route has it. The paywall does not know "
        "which requests are to be paid, and an answer that was made without asking leaves unpaid. Write it "
        f"where the route is declared: {place}. To ask in a function, use require_payment of faregate.asgi."
    )


def _remove_placed(parts: Iterable[Any]) -> None:
    for part in parts:
        _unplaced.pop(id(part), None)


def _list_living_routers() -> list[Any]:
    """All routers of the process: another application than the one that starts may sell a price."""
    kind: Any = getattr(sys.modules.get("starlette.routing"), "Router", None)
    return [] if kind is None else [held for held in gc.get_objects() if issubclass(type(held), kind)]


def _list_placed(routers: Iterable[Any]) -> Iterator[Any]:
    """What the routes of these routers are made of, and the prices of the routers."""
    for router in routers:
        yield from walk(router, through_self=True)
        yield from _list_dependencies(router)
        for route in (*router.routes, *getattr(router, "_iter_low_priority_routes", tuple)()):
            yield from _list_dependencies(getattr(route, "include_context", None))
            yield from list_parts(route, getattr(route, "dependant", None))
            endpoint = getattr(route, "endpoint", None)
            methods = (
                (getattr(endpoint, name, None) for name in _METHODS) if isclass(endpoint) else (endpoint,)
            )
            for method in methods:
                yield from list_parts(method)


def _list_dependencies(group: Any) -> Iterator[Any]:
    """The prices of a router of FastAPI, or of its inclusion in another one."""
    for dependency in getattr(group, "dependencies", ()):
        yield from walk(dependency.dependency, through_self=True)
