"""Find the paywalls and other middleware around an application.

Independent of frameworks: a layer wraps what it keeps as `app` or `application`, as most middleware of ASGI
and WSGI does, or else what leads to a router among its attributes, its closure or its arguments.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from inspect import getattr_static
from itertools import islice
from types import FunctionType, MethodType
from typing import Any, cast

from faregate.middleware.callables import get_closure, is_proxy
from faregate.middleware.handlers import name_handler
from faregate.middleware.path_rules import PathRules
from faregate.paywall import Paywall
from faregate.routes import RouteInfo, RouteTable
from faregate.routes.access import apply_path_rules

ANYTHING = "/*"
# An object with a `__getattr__` of its own, such as a mock, may have an `app` without end.
_MAX_LAYERS = 100


@dataclass(frozen=True, slots=True)
class PaywallLayer:
    """One paywall middleware. Its paywall is created lazily, because listing routes needs no settings."""

    path_rules: PathRules
    paywall: Callable[[], Paywall]


def unwrap(app: Any) -> list[Any]:
    """The layers around an application from the outside in, and at last the application itself.

    That is what has routes, or wraps nothing.
    """
    layers = [app]
    while len(layers) < _MAX_LAYERS:
        inner = _find_inner(layers[-1])
        # Compared by identity: the layer's own `==` may answer anything.
        if inner is None or any(inner is layer for layer in layers):
            break
        layers.append(inner)
    return layers


def _find_inner(layer: Any) -> Any:
    """Find the application that a layer wraps; None if the layer has a router's routes, or wraps nothing.

    Most layers name it `app` or `application`. Of any other, it is what leads to a router among what the
    layer holds: a cache that hides its application must not hide the prices behind it.
    """
    if _has_routes(layer):
        return None
    inner = getattr(layer, "app", None) or getattr(layer, "application", None)
    # A router of Starlette has a method of this name.
    is_named = callable(inner) and getattr(inner, "__self__", None) is not layer
    if is_named and _leads_to_router(inner):
        return inner
    router = next((held for held in _list_held(layer) if _leads_to_router(held)), None)
    return inner if router is None and is_named else router


def _has_routes(value: Any) -> bool:
    """Whether a value has a router's routes. Middleware may use the name for the paths that it knows."""
    routes: Any = getattr(value, "routes", None)
    return isinstance(routes, list | tuple) and any(
        hasattr(route, "matches") for route in cast("list[Any]", routes)
    )


def _leads_to_router(value: Any) -> bool:
    waiting, seen = [value], dict[int, Any]()
    while waiting and len(seen) < _MAX_LAYERS:
        held = waiting.pop(0)
        if id(held) in seen:
            continue
        seen[id(held)] = held
        # Looked up without asking the value: a proxy has nothing to answer with before there is a request.
        if getattr_static(held, "routes", None) is not None and _has_routes(held):
            return True
        waiting += _list_held(held)
    return False


def _list_held(layer: Any) -> list[Any]:
    """List the callables that a layer was made with: its attributes, or those of a function or a partial."""
    held: list[Any] = []
    if isinstance(layer, partial):
        held += [layer.func, *layer.args, *layer.keywords.values()]
    elif isinstance(layer, MethodType):
        held.append(layer.__self__)
    elif isinstance(layer, FunctionType):
        held += get_closure(layer).values()
    else:
        with suppress(AttributeError):
            held += object.__getattribute__(layer, "__dict__").values()
    return [value for value in _flatten(held) if callable(value) and not _is_opaque(value)]


def _flatten(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and in place of a container what is in it."""
    for value in values:
        if type(value) is dict:
            yield from islice(cast("Iterable[Any]", value.values()), _MAX_LAYERS)
        elif type(value) in (list, tuple):
            yield from islice(value, _MAX_LAYERS)
        else:
            yield value


def _is_opaque(value: object) -> bool:
    """Whether a value is a class, or pretends to be another object."""
    kind = type(value)
    return issubclass(kind, type) or is_proxy(kind)


def list_paywalls(layers: Iterable[Any]) -> list[PaywallLayer]:
    """Those of the layers that are paywalls. Raises the `ConfigurationError` that one was made with."""
    return [paywall for layer in layers if (paywall := _get_paywall_layer(layer)) is not None]


def _get_paywall_layer(layer: Any) -> PaywallLayer | None:
    mistake = getattr(layer, "mistake", None)
    if isinstance(mistake, Exception):
        raise mistake
    path_rules, paywall = getattr(layer, "path_rules", None), getattr(layer, "paywall", None)
    if not isinstance(path_rules, PathRules) or not isinstance(paywall, Paywall):
        return None
    return PaywallLayer(path_rules, lambda: paywall)


def list_inner_paywalls(core: Any) -> list[PaywallLayer]:
    """The paywalls that an application or a router puts around its own routes.

    Raises `ConfigurationError`.
    """
    # An application builds its stack with the first request; until then its middleware is only declared.
    entries = getattr(core, "user_middleware", ())
    declared = [_build_paywall_layer(entry.args, entry.kwargs) for entry in entries if is_paywall(entry.cls)]
    stack = getattr(getattr(core, "router", core), "middleware_stack", None)
    return [*declared, *list_paywalls(unwrap(stack))]


def is_paywall(kind: Any) -> bool:
    """Whether this is a class of paywall middleware."""
    # Compared with True: of a mock, every attribute is there.
    return getattr(kind, "faregate_middleware", False) is True


def _build_paywall_layer(arguments: Sequence[Any], options: Mapping[str, Any]) -> PaywallLayer:
    """Find the middleware that these arguments declare. Raises `ConfigurationError`."""
    settings = dict(options)
    path_rules = PathRules(settings.pop("offers", None), settings.pop("refuse", ()))
    for name in ("sweep_every", "drain_seconds", "allow_outside"):
        settings.pop(name, None)
    paywall = arguments[0] if arguments else settings.pop("paywall", None)
    return PaywallLayer(
        path_rules, cache(partial(Paywall, **settings)) if paywall is None else lambda: paywall
    )


def apply_paywalls(paywalls: Sequence[PaywallLayer], table: RouteTable, root: str = "") -> RouteTable:
    """The routes below several paywalls, given from the outside in. `root` is where they are mounted."""
    for layer in reversed(paywalls):
        table = apply_path_rules(table, layer.path_rules, root, layer.paywall)
    return table


# Names of middleware that answers from a cache or from files, and of middleware that only sets headers.
_ANSWERS = re.compile("cache|static|(white|black)noise", re.IGNORECASE)
_SETS_HEADERS = re.compile("no_?cach|cache_?(control|headers?)", re.IGNORECASE)

Around = Sequence[tuple[Any, Mapping[str, Any]]]
"""Middleware classes and their options, outermost first."""


def find_answering_middleware(around: Around) -> Iterator[str]:
    """Sentences about middleware outside a paywall that answers by itself, as far as its name tells."""
    paywalls = [at for at, (kind, _) in enumerate(around) if is_paywall(kind)]
    allowed = [one for at in paywalls for one in around[at][1].get("allow_outside") or ()]
    for kind, options in around[: max(paywalls, default=0)]:
        called = options.get("dispatch", kind)  # what Starlette's BaseHTTPMiddleware calls
        name = name_handler(called)
        if not is_paywall(kind) and called not in allowed and _seems_to_answer(name.rpartition(".")[2]):
            yield (
                f"{name} is outside PaywallMiddleware. If it answers by itself, from a cache or from files, "
                "nobody pays for that. Put it inside: after PaywallMiddleware in a list, before it in calls "
                "of add_middleware. If it leaves alone what is sold, name it in allow_outside."
            )


def find_redundant_paywalls(around: Around) -> Iterator[str]:
    """A sentence about a paywall around another one of the same application that sells nothing itself."""
    paywalls = [options for kind, options in around if is_paywall(kind)]
    if any(not options.get("offers") and not options.get("refuse") for options in paywalls[:-1]):
        yield "PaywallMiddleware is added twice, and the outer one sells nothing. Add it once."


def list_declared_middleware(core: Any) -> Around:
    """The middleware that an application or a router puts around its own routes, declared or built."""
    entries = [(entry.cls, entry.kwargs) for entry in getattr(core, "user_middleware", ())]
    stack = getattr(getattr(core, "router", core), "middleware_stack", None)
    return [*entries, *list_outer_middleware(stack)]


def list_outer_middleware(app: Any) -> Around:
    """The middleware that is wrapped around an application from outside."""
    return [(layer.__class__, _get_options(layer)) for layer in unwrap(app)[:-1]]


def _get_options(layer: Any) -> Mapping[str, Any]:
    path_rules = getattr(layer, "path_rules", None)
    if not isinstance(path_rules, PathRules):
        # Of Starlette's BaseHTTPMiddleware: a function that it was given, or a method of its own subclass.
        called = getattr(layer, "dispatch_func", None)
        return {} if called is None or getattr(called, "__self__", None) is layer else {"dispatch": called}
    allowed = getattr(layer, "allow_outside", ())
    return {"offers": path_rules.offers, "refuse": path_rules.refused, "allow_outside": allowed}


def _seems_to_answer(name: str) -> bool:
    return _ANSWERS.search(name) is not None and _SETS_HEADERS.search(name) is None


def find_unprotected(table: RouteTable) -> Iterator[str]:
    """Sentences about offers without a paywall in front: their handlers fail, and are never free."""
    for route in table.routes:
        if route.offer is not None and route.paywall is None:
            yield f"{route.verbs} {route.place} sells {route.sells!r}, and no PaywallMiddleware is in front."


def build_unlisted_app(app: Any, path: str = ANYTHING, host: str = "") -> RouteTable:
    """The table of an application whose routes cannot be listed."""
    return RouteTable((RouteInfo(path, (), name_handler(app), host=host),))
