"""Find the paywalls and other middleware around an application.

Independent of frameworks. Most middleware of ASGI and WSGI keeps what it wraps as `app` or `application`. In
any other layer, the attributes, the closure and the arguments are searched for what leads to a router.
"""

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import islice
from operator import itemgetter
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any, NamedTuple, cast
from weakref import ReferenceType

from faregate.checkout.handlers import name_handler
from faregate.checkout.path_rules import PathRules
from faregate.checkout.wrapped_callables import get_closure, is_proxy, peel
from faregate.paywall import Paywall
from faregate.routes import RouteInfo, RouteTable
from faregate.routes.pricing import apply_path_rules

ANYTHING = "/*"
# An object with a `__getattr__` of its own, such as a mock, may have an `app` without end.
_MAX_LAYERS = 100
_MAX_HELD = 200
_MAX_SLOTS = 20
"""A class that has more is no layer but an application, such as Litestar's: looking through it takes long."""


@dataclass(frozen=True, slots=True)
class PaywallLayer:
    """One paywall middleware. Its paywall is created lazily, because listing routes needs no settings."""

    path_rules: PathRules
    paywall: Callable[[], Paywall]


def unwrap(app: Any) -> list[Any]:
    """The layers around an application from the outside in, and at last the application itself.

    The application is what has routes, or wraps nothing. If there are several, it is the one that the layers
    name.
    """
    return list_chains(app)[0]


def list_chains(app: Any) -> list[list[Any]]:
    """The ways through the layers of an application, each from the outside in, to what has routes.

    A layer may lead to several: by host, by path, or to a second one for what the first does not have. The
    applications that layers name come first. If nothing has routes, the only way follows those names.
    """
    chains: list[tuple[tuple[int, ...], list[Any]]] = []
    app = peel(app)
    seen, waiting = dict[int, Any](), deque[tuple[tuple[int, ...], list[Any]]]([((), [app])])
    while waiting and len(seen) < _MAX_HELD:
        place, chain = waiting.popleft()
        layer = chain[-1]
        # Compared by identity: the layer's own `==` may answer anything.
        if id(layer) in seen or len(chain) > _MAX_LAYERS:
            continue
        seen[id(layer)] = layer
        if _may_ask(layer, "routes", place) and _has_routes(layer):
            chains.append((place, chain))
            continue
        is_named = _may_ask(layer, "app", place) or _may_ask(layer, "application", place)
        held = (_get_named(layer) if is_named else None, *_list_held(layer))
        waiting.extend(((*place, at), [*chain, inner]) for at, inner in enumerate(held) if inner is not None)
    chains.sort(key=itemgetter(0))
    return [chain for _, chain in chains] or [_follow_names(app)]


def _may_ask(layer: Any, name: str, place: tuple[int, ...]) -> bool:
    """Whether a layer may be asked for this attribute. A layer may be that the layers before it name.

    Any other layer may be a proxy, which cannot answer outside of a request.
    """
    return (
        not any(place)
        or name in _inspect_class(cast(Hashable, type(layer))).names
        or name in _get_attributes(layer)
    )


def _get_attributes(layer: Any) -> Mapping[str, Any]:
    with suppress(AttributeError):
        attributes: Mapping[str, Any] = object.__getattribute__(layer, "__dict__")
        return attributes
    return {}


def _get_named(layer: Any) -> Any:
    """The application that a layer keeps under the name that most layers use; None if it has none."""
    named = getattr(layer, "app", None) or getattr(layer, "application", None)
    # A router of Starlette has a method of this name.
    return peel(named) if callable(named) and getattr(named, "__self__", None) is not layer else None


def _follow_names(app: Any) -> list[Any]:
    layers = [app]
    while len(layers) < _MAX_LAYERS:
        inner = _get_named(layers[-1])
        if inner is None or any(inner is layer for layer in layers):
            break
        layers.append(inner)
    return layers


def get_router(core: Any) -> Any:
    """The router of an application, or the router that it is."""
    return getattr(core, "router", core)


def get_own_root(core: Any) -> str:
    """The root path that an application of FastAPI puts in place of the server's; "" if it has none."""
    root: Any = getattr(core, "root_path", "")  # of Flask and Quart, it is a folder
    return root if isinstance(root, str) and _has_routes(core) else ""


def list_own_roots(app: Any, entered: tuple[int, ...] = ()) -> Iterator[str]:
    """List the root paths that an application, and those mounted in it, put in place of the server's.

    `entered` are the ids of the routers above: one may lead to itself.
    """
    for layers in list_chains(app):
        core = layers[-1]
        router = get_router(core)
        if id(router) in entered or not _has_routes(core):
            continue
        if root := get_own_root(core):
            yield root
        for route in filter(_has_routes, router.routes):
            yield from list_own_roots(route.app, (*entered, id(router)))


def list_declared_apps(core: Any) -> list[Any]:
    """The applications with routes that middleware of an application is given beside its own."""
    entries: Iterable[Any] = getattr(core, "user_middleware", ())
    values = (value for entry in entries for value in (*entry.args, *entry.kwargs.values()))
    return [value for value in _flatten(values) if _is_followed(value) and has_app(value)]


def has_app(value: Any) -> bool:
    """Whether a value leads to something that has routes."""
    return _has_routes(unwrap(value)[-1])


def _has_routes(value: Any) -> bool:
    """Whether a value has a router's routes. Middleware may use the name for the paths that it knows."""
    routes: Any = getattr(value, "routes", None)
    return isinstance(routes, list | tuple) and any(
        hasattr(route, "matches") for route in cast("list[Any]", routes)
    )


def _list_held(layer: Any) -> list[Any]:
    """List the callables that a layer was made with: its attributes, or those of a function or a partial."""
    held: list[Any] = []
    if isinstance(layer, partial):
        held += [layer.func, *layer.args, *layer.keywords.values()]
    elif isinstance(layer, MethodType):
        held.append(layer.__self__)
    elif isinstance(layer, ReferenceType):
        held.append(cast("Callable[[], Any]", layer)())
    elif isinstance(layer, FunctionType):
        held += [*get_closure(layer).values(), *(layer.__defaults__ or ())]
        held += (layer.__kwdefaults__ or {}).values()
    else:
        kind = _inspect_class(cast(Hashable, type(layer)))
        held += [*_get_attributes(layer).values(), *kind.held]
        held += _read_slots(layer, kind.slots)
    return [value for value in map(peel, _flatten(held)) if _is_followed(value)]


def _read_slots(layer: Any, slots: Iterable[MemberDescriptorType]) -> Iterator[Any]:
    for slot in slots:
        try:
            yield slot.__get__(layer)
        except AttributeError:  # it has no value yet
            continue


class _LayerClass(NamedTuple):
    """What a class of layers has: attributes of these names, slots, and what it was made with."""

    names: frozenset[str]
    slots: tuple[MemberDescriptorType, ...]
    held: tuple[Any, ...]


@lru_cache(maxsize=1024)
def _inspect_class(kind: Hashable) -> _LayerClass:
    bases = [vars(base) for base in cast(type, kind).__mro__]
    names = frozenset(
        name for name in ("routes", "app", "application") if any(name in members for members in bases)
    )
    calls = [members[name] for members in bases for name in ("__call__", "handle") if name in members]
    held = [value for call in calls for value in get_closure(call).values()]
    values = [value for members in bases if "__slots__" in members for value in members.values()]
    slots = tuple(value for value in values if isinstance(value, MemberDescriptorType))
    return _LayerClass(names, slots if len(slots) <= _MAX_SLOTS else (), tuple(held))


def _flatten(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and in place of a container what is in it."""
    for value in values:
        if type(value) is dict:
            yield from islice(cast("Iterable[Any]", value.values()), _MAX_LAYERS)
        elif type(value) in (list, tuple):
            yield from islice(value, _MAX_LAYERS)
        else:
            yield value


def _is_followed(value: object) -> bool:
    """Whether a value may be a layer: no class, and nothing that pretends to be another object."""
    kind = type(value)
    return callable(value) and not issubclass(kind, type) and not is_proxy(kind)


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
# One for the header `Idempotency-Key` is a cache, and answers strangers who guess the key.
_ANSWERS = re.compile("cache|idempoten|static|(white|black)noise", re.IGNORECASE)
_SETS_HEADERS = re.compile("no_?cach|cache_?(control|headers?)", re.IGNORECASE)

Around = Sequence[tuple[Any, Mapping[str, Any]]]
"""Middleware classes and their options, outermost first."""


def find_answering_middleware(around: Around) -> Iterator[str]:
    """Sentences about middleware outside a paywall that answers by itself, as far as its name tells."""
    paywalls = [at for at, (kind, _) in enumerate(around) if is_paywall(kind)]
    allowed = [middleware for at in paywalls for middleware in around[at][1].get("allow_outside") or ()]
    for kind, options in around[: max(paywalls, default=0)]:
        called = options.get("dispatch", kind)  # what Starlette's BaseHTTPMiddleware calls
        name = name_handler(called)
        if not is_paywall(kind) and called not in allowed and _seems_to_answer(name.rpartition(".")[2]):
            yield (
                f"{name} is outside PaywallMiddleware. If it answers by itself, from a cache or from files, "
                "that answer is unpaid. Put it inside: after PaywallMiddleware in a list, before it in calls "
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
    return describe_layers(unwrap(app)[:-1])


def describe_layers(layers: Iterable[Any]) -> Around:
    """The classes of layers and their options."""
    return [(layer.__class__, _get_options(layer)) for layer in layers]


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
