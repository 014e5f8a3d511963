"""Find what a handler sells, through decorators and wrappers. Pure.

An adapter's decorator marks the function it returns with the offer, `faregate_offer`, and the function it
was given with `faregate_sold`: who runs the latter was given the handler without its price.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import Signature, getattr_static, isclass, signature
from types import FunctionType, MethodType
from typing import Any, get_type_hints

from faregate.core.models import Offer

OFFER, SOLD, MAKES_OFFERS = "faregate_offer", "faregate_sold", "faregate_makes_offers"
_MOST = 200
"""Functions and wrappers that are looked at for one handler: closures may lead anywhere."""


@dataclass(frozen=True, slots=True)
class Handler:
    """What is known of a handler: what it sells, or the mistake that would give it away."""

    offers: tuple[Offer, ...] = ()
    mistake: str = ""


def inspect_handler(handler: Any, dependant: Any = None, overrides: Any = ()) -> Handler:
    """Find the offers of a handler and of the dependencies that are solved before it.

    `dependant` is FastAPI's tree of dependencies; those in `overrides` are replaced, as in tests.
    """
    offers, unpriced, mistake = dict[Offer, None](), None, ""
    for one in _find_wrapped(handler):
        if (offer := _get_offer(one, OFFER)) is not None:
            offers[offer] = None
        unpriced = unpriced or _get_offer(one, SOLD)
    calls = list(_find_dependencies(dependant, overrides))
    if any(_read(one, MAKES_OFFERS) for one in (*calls, *_find_parameters(handler))):
        mistake = (
            f"{name_handler(handler)} depends on paid itself and sells nothing. "
            "Write Depends(paid('text_summary')), with what is sold."
        )
    for call in calls:
        offers.update(dict.fromkeys(inspect_handler(call).offers))
    if unpriced is not None and not offers:
        mistake = (
            f"{name_handler(handler)} is sold as {unpriced.sells!r}, but its route runs it without the "
            "price. Put @paid below the decorator of the route, next to the function."
        )
    return Handler(tuple(offers), mistake)


def mark(wrapper: Any, handler: Any, offer: Offer) -> None:
    """Mark `wrapper` as what sells the offer, and `handler` as what is not to be run without it."""
    setattr(wrapper, OFFER, offer)
    for one in _find_chain(handler):
        with suppress(AttributeError, TypeError):  # an object without a place for it
            setattr(one, SOLD, offer)


def mark_maker(make: Any) -> None:
    """Mark a function that makes offers from what it is given, for which it is easily taken itself.

    Its signature is one that FastAPI can read: then its own sentence is said, and not FastAPI's.
    """
    setattr(make, MAKES_OFFERS, True)
    parameters = [one.replace(annotation=Any) for one in signature(make).parameters.values()]
    make.__signature__ = Signature(parameters)


def pick_method(endpoint: Any, method: str) -> Any:
    """The method of an endpoint class that answers; any other endpoint as it is."""
    if not isclass(endpoint):
        return endpoint
    fallback = getattr(endpoint, "get", endpoint) if method == "HEAD" else endpoint
    return getattr(endpoint, method.lower(), fallback)


def name_handler(handler: Any) -> str:
    """Where a person finds it: `shop.reports.today`; for an object, its class."""
    while isinstance(handler, partial):
        handler = handler.func
    named: Any = handler if hasattr(handler, "__qualname__") else getattr(handler, "__class__", None)
    return f"{named.__module__}.{named.__qualname__}".replace("<locals>.", "")


def _get_offer(one: Any, name: str) -> Offer | None:
    found = _read(one, name)
    return found if isinstance(found, Offer) else None


def _read(one: Any, name: str) -> Any:
    """An attribute that is there. What makes up its attributes, as proxies of a request do, is not asked."""
    return getattr_static(one, name, None)


def _find_dependencies(dependant: Any, overrides: Any) -> Iterator[Any]:
    for one in getattr(dependant, "dependencies", ()):
        if one.call not in overrides:
            yield one.call
            yield from _find_dependencies(one, overrides)


def _find_parameters(handler: Any) -> Iterator[Any]:
    """What the parameters of a function have for defaults, and in `Annotated`."""
    if isinstance(handler, FunctionType):
        yield from handler.__defaults__ or ()
        yield from (handler.__kwdefaults__ or {}).values()
        hints = dict[str, Any]()
        with suppress(Exception):  # a name that is known to type checkers only
            hints = get_type_hints(handler, include_extras=True)
        for hint in hints.values():
            yield from getattr(hint, "__metadata__", ())


# What wraps what


def _find_wrapped(handler: Any) -> Iterator[Any]:
    """The handler, and all that it may call in the end."""
    seen, left = dict[int, Any](), [handler]
    while left and len(seen) < _MOST:
        one = left.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            yield one
            left.extend(_get_wrapped(one))


def _find_chain(handler: Any) -> Iterator[Any]:
    """The handler, and what it certainly wraps."""
    for _ in range(_MOST):
        yield handler
        inner = list(_get_wrapped(handler))
        if not inner or (len(inner) > 1 and _read(handler, "__wrapped__") is None):
            return
        handler = inner[0]


def _get_wrapped(one: Any) -> Iterator[Any]:
    """What this calls, as far as it says: its `__wrapped__`, what it closes over, what it keeps."""
    if not isclass(one) and _read(one, "__wrapped__") is not None:
        yield one.__wrapped__
    if isinstance(one, partial):
        yield one.func
    elif isinstance(one, FunctionType):
        yield from _get_enclosed(one)
    elif isinstance(one, MethodType):
        yield one.__func__
        yield from _get_kept(one.__self__)
    else:
        yield from _get_called(one)
        yield from _get_kept(one)


def _get_called(instance: object) -> Iterator[Any]:
    call = vars(type(instance)).get("__call__")
    if isinstance(call, FunctionType):
        yield call


def _get_enclosed(function: FunctionType) -> Iterator[Any]:
    """The functions in its closure and among its defaults; not those it knows by their own names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if _is_wrapper(content) or (_is_function(content) and not _is_neighbour(function, name, content)):
            yield content
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        if _is_function(default):
            yield default


def _is_neighbour(function: FunctionType, name: str, other: Any) -> bool:
    """Whether both were defined in one place: then it speaks of the other, and is no wrapper of it."""
    place, _, own_name = getattr(other, "__qualname__", "").rpartition(".")
    same_place = bool(place) and function.__qualname__.startswith(f"{place}.")
    return same_place and name == own_name and function.__module__ == getattr(other, "__module__", None)


def _get_kept(instance: Any) -> Iterator[Any]:
    """The one function that an object keeps: of several it is not a wrapper, but a collection of views."""
    if isclass(instance):
        return
    try:
        attributes = object.__getattribute__(instance, "__dict__")
    except AttributeError:
        return
    kept = [(name, one) for name, one in attributes.items() if _is_function(one)]
    if len(kept) == 1 and kept[0][0].strip("_") != getattr(kept[0][1], "__name__", "").strip("_"):
        yield kept[0][1]


def _is_wrapper(one: Any) -> bool:
    """Whether an object, not a function, wraps one."""
    if isclass(one) or _is_function(one) or not callable(one) or _read(one, "routes") is not None:
        return False
    return _read(one, "__wrapped__") is not None or any(_get_kept(one))


def _is_function(one: Any) -> bool:
    return isinstance(one, FunctionType | MethodType | partial)
