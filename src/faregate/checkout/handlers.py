"""Find what a handler sells, through decorators and wrappers. Pure.

An adapter's decorator marks the function it returns with the offer, `faregate_offer`, and the function it
was given with `faregate_sold`: a route that runs the latter lacks the price of the handler.
"""

import sys
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import Signature, get_annotations, getattr_static, isclass, signature
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, get_args, get_type_hints

from faregate.checkout.bytecode_lookups import find_looked_up
from faregate.checkout.wrapped_callables import get_closure, get_module, walk, walk_chain
from faregate.core.models import Offer
from faregate.core.reported_values import Payment

OFFER, SOLD, MAKES_OFFERS = "faregate_offer", "faregate_sold", "faregate_makes_offers"
_PRICE = "faregate_guard"
Follow = Callable[..., Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Handler:
    """The offers of a handler, or the mistake that would give its result away, or charge for no result."""

    offers: tuple[Offer, ...] = ()
    mistake: str = ""


def inspect_handler(
    handler: Any,
    dependant: Any = None,
    overrides: Any = (),
    follow: Follow = walk,
    dependencies: Iterable[Any] = (),
) -> Handler:
    """Find the offers of a handler and of the dependencies that are solved before it.

    `dependant` is FastAPI's tree of dependencies; those in `overrides` are replaced, as in tests. `follow`
    lists what the handler calls: `walk_chain` for a handler that may also hold other handlers.
    `dependencies` are those in the list of a route, which FastAPI reads when it makes the route.
    """
    offers, unpriced = dict[Offer, None](), None
    for part in follow(handler, through_self=True):
        if (offer := _get_offer(part, OFFER)) is not None:
            offers[offer] = None
        unpriced = unpriced or _get_offer(part, SOLD)
    calls = list(_find_dependencies(dependant, overrides))
    asked_offers = dict.fromkeys(offer for call in calls for offer in _list_marked(call))
    offers.update(asked_offers)
    declared = [*_find_declared(handler, overrides), *_find_in_classes(handler, calls)]
    listed = [entry.dependency for entry in dependencies if entry.dependency]
    mistakes = [
        *_check_paid_itself(handler, (*calls, *(call for call, _ in declared))),
        *_check_place(handler, unpriced if not offers else None, has_asked=bool(asked_offers)),
        *_check_unasked(handler, declared, [call for call in listed if call not in overrides], offers),
        *_check_number(handler, calls),
        *_check_lookups(handler, dependant, overrides),
    ]
    return Handler(tuple(offers), mistakes[-1] if mistakes else "")


def _check_paid_itself(handler: Any, calls: Iterable[Any]) -> Iterator[str]:
    if any(_read_static(call, MAKES_OFFERS) for call in (*calls, *_find_parameters(handler))):
        yield (
            f"{name_handler(handler)} depends on paid itself and sells nothing. "
            "Write Depends(paid('text_summary')), with what is sold."
        )


def _check_place(handler: Any, unpriced: Offer | None, *, has_asked: bool) -> Iterator[str]:
    """Check that no login stands below a price, and that the route runs the function that has the price."""
    if has_asked and has_login(handler):
        yield (
            f"A login stands on {name_handler(handler)}, below its price: a payer who is not logged in would "
            "pay for a redirect. Ask for the login in a dependency before paid(...)."
        )
    if unpriced is not None:
        yield (
            f"{name_handler(handler)} is sold as {unpriced.sells!r}, but its route runs it without the "
            "price. Put @paid below the decorator of the route, next to the function."
        )


def _check_unasked(
    handler: Any,
    declared: Iterable[tuple[Any, Any]],
    route_calls: Iterable[Any],
    offers: Container[Offer],
) -> Iterator[str]:
    """Check that the route asks for the prices that its function declares, and for those in its list."""
    declared_offers = ((offer, function) for call, function in declared for offer in _list_marked(call))
    for offer, function in declared_offers:
        if offer not in offers:
            yield _UNASKED.format(name_handler(function), offer.sells)
    for offer in (offer for call in route_calls for offer in _list_marked(call)):
        if offer not in offers:
            yield _ADDED.format(name_handler(handler), offer.sells)


def _check_number(handler: Any, calls: Iterable[Any]) -> Iterator[str]:
    asked_offers = _list_asked(handler, calls)
    if len(asked_offers) > 1:
        names = " and ".join(repr(offer.sells) for offer in asked_offers)
        yield _TWO_OFFERS.format(name_handler(handler), names)


def _check_lookups(handler: Any, dependant: Any, overrides: Any) -> Iterator[str]:
    """Check that no dependency returns a price instead of asking for it."""
    for call in _find_unused(dependant, overrides):
        price = None if list(_list_marked(call)) else find_looked_up(call, _has_offer)
        if price is not None:
            offer = _read_static(price, OFFER)
            yield _LOOKED_UP.format(name_handler(call), name_handler(handler), offer.sells)


def _list_asked(handler: Any, calls: Iterable[Any]) -> list[Offer]:
    """List the offers that every call of a handler asks for. A wrapper may hold others to choose from."""
    prices = [part for part in walk_chain(handler) if is_price(part)]
    offers = (_get_offer(price, OFFER) for price in (*prices, *calls))
    return list(dict.fromkeys(offer for offer in offers if offer is not None))


_TWO_OFFERS = "{} sells {}: no payer can buy it. Keep one offer, on the handler or on its group."
_UNASKED = (
    "{} declares Depends(paid({!r})), and its route does not ask for it. Routes of FastAPI do (@app.get, "
    "add_api_route), for the parameters that they see: a decorator of the function needs functools.wraps, "
    "and a partial leaves the payment alone. For a route of Starlette (add_route, Route) use the paid of "
    "faregate.starlette."
)
_ADDED = (
    "The dependencies of the route of {} have paid({!r}), and its route does not ask for it: it was added "
    "after the route was made. Write @app.get(..., dependencies=[Depends(paid(...))])."
)
_LOOKED_UP = (
    "The dependency {} of {} looks up paid({!r}), and its route does not ask for what a dependency returns. "
    "Name the price itself: Depends(paid(...))."
)


def _list_marked(call: Any) -> Iterator[Offer]:
    """List the offers that mark a function, or a part of it."""
    for part in walk(call, through_self=True):
        if (offer := _get_offer(part, OFFER)) is not None:
            yield offer


def list_parts(handler: Any, dependant: Any = None) -> Iterator[Any]:
    """List what a handler is made of, and the dependencies that it has or declares."""
    declared = (call for call, _ in _find_declared(handler, ()))
    for part in (handler, *_find_dependencies(dependant, ()), *declared):
        yield from walk(part, through_self=True)


def has_login(handler: Any) -> bool:
    """Whether Starlette's `@requires` is on a handler, which redirects or refuses clients without one."""
    return any(get_module(part) == "starlette.authentication" for part in walk(handler, through_self=True))


def mark(wrapper: Any, handler: Any, offer: Offer) -> None:
    """Mark `wrapper` as selling the offer, and `handler` as sold: no route may run it alone."""
    setattr(wrapper, OFFER, offer)
    for part in walk_chain(handler, through_self=True):
        with suppress(AttributeError, TypeError):  # an object that takes no attributes
            setattr(part, SOLD, offer)


def mark_price(function: Any, offer: Offer) -> None:
    """Mark a function that asks for payment itself: the view that `paid` returns, or the decorator.

    The mark is the function itself: `functools.wraps` copies it to outer functions, which do not ask.
    """
    function.__dict__ |= {OFFER: offer, _PRICE: function}


def is_price(function: Any) -> bool:
    """Whether a function was marked by `mark_price`, and not only given a copy of the mark."""
    return isinstance(function, FunctionType) and function.__dict__.get(_PRICE) is function


def find_offers(view: object) -> tuple[Offer, ...]:
    """Find the offers of the prices on a function, however it is wrapped; the outermost first."""
    offers: dict[Offer, None] = {vars(part)[OFFER]: None for part in walk(view) if is_price(part)}
    return tuple(offers)


def mark_maker(make: Any) -> None:
    """Mark a function that makes offers, such as `paid`, so that `Depends(paid)` is found as a mistake.

    The function gets a signature that FastAPI can read: the seller then sees our message, and not FastAPI's.
    """
    setattr(make, MAKES_OFFERS, True)
    parameters = [parameter.replace(annotation=Any) for parameter in signature(make).parameters.values()]
    make.__signature__ = Signature(parameters)


def pick_method(endpoint: Any, method: str) -> Any:
    """Return the method of an endpoint class that answers an HTTP method; any other endpoint unchanged."""
    if not isclass(endpoint):
        return endpoint
    fallback = getattr(endpoint, "get", endpoint) if method == "HEAD" else endpoint
    return getattr(endpoint, method.lower(), fallback)


def name_handler(handler: Any) -> str:
    """Name a handler for people: `shop.reports.today`; for an object, its class."""
    while isinstance(handler, partial):
        handler = handler.func
    named: Any = handler if hasattr(handler, "__qualname__") else getattr(handler, "__class__", None)
    return f"{named.__module__}.{named.__qualname__}".replace("<locals>.", "")


def _get_offer(part: Any, name: str) -> Offer | None:
    value = _read_static(part, name)
    return value if isinstance(value, Offer) else None


def _read_static(owner: Any, name: str) -> Any:
    """Read an existing attribute. Objects that invent attributes, such as request proxies, are not read."""
    return getattr_static(owner, name, None)


def _find_dependencies(dependant: Any, overrides: Any) -> Iterator[Any]:
    for dependency in getattr(dependant, "dependencies", ()):
        if dependency.call not in overrides:
            yield dependency.call
            yield from _find_dependencies(dependency, overrides)


def _has_offer(value: Any) -> bool:
    return _get_offer(value, OFFER) is not None


def _find_unused(dependant: Any, overrides: Any) -> Iterator[Any]:
    """Find the dependencies whose value the handler ignores, or receives as a `Payment`."""
    receiver = getattr(dependant, "call", None)
    for dependency in getattr(dependant, "dependencies", ()):
        if dependency.call not in overrides:
            if dependency.name is None or _takes_payment(receiver, dependency.name):
                yield dependency.call
            yield from _find_unused(dependency, overrides)


def _takes_payment(receiver: Any, name: str) -> bool:
    function = receiver.__init__ if isclass(receiver) else receiver
    annotation = getattr(function, "__annotations__", {}).get(name)
    return any(_names_payment(hint) for hint in _resolve(getattr(function, "__func__", function), annotation))


def _names_payment(hint: Any) -> bool:
    return hint is Payment or any(map(_names_payment, get_args(hint)))


def _find_in_classes(handler: Any, calls: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Find the dependencies that attributes of classes declare, each with the class. FastAPI ignores them.

    The classes are that of a method, and those in `calls`. A price itself, not in `Depends`, may be an
    attribute: a method can await it.
    """
    instance = handler.__self__ if isinstance(handler, MethodType) else None
    for kind in (instance if isclass(instance) else type(instance), *filter(isclass, calls)):
        for base in kind.__mro__[:-1]:
            annotations = list[Any]()
            with suppress(NameError):  # a name that is known to type checkers only
                annotations = list(get_annotations(base).values())
            hints = (hint for annotation in annotations for hint in _resolve(base, annotation))
            metadata = [value for hint in hints for value in _list_metadata(hint)]
            for value in (*vars(base).values(), *metadata):
                call = _read_static(value, "dependency")
                if callable(call) and call is not value:
                    yield call, kind


def _find_declared(handler: Any, overrides: Any) -> Iterator[tuple[Any, Any]]:
    """Find the dependencies that parameters of a handler declare, at any depth; each with the function.

    They are called only if FastAPI sees them.
    """
    waiting, seen = [handler], dict[int, Any]()
    while waiting:
        for function in walk_chain(waiting.pop(), through_self=True):
            for parameter in _find_parameters(function):
                # Of FastAPI's `Depends`, which is not imported here.
                call = _read_static(parameter, "dependency")
                if callable(call) and id(call) not in seen and call not in overrides:
                    seen[id(call)] = call
                    yield call, function
                    waiting.append(_read_static(call, "__init__") if isclass(call) else call)


def _find_parameters(handler: Any) -> Iterator[Any]:
    """Yield the defaults of a function's parameters, and their metadata in `Annotated`."""
    if isinstance(handler, FunctionType):
        yield from handler.__defaults__ or ()
        yield from (handler.__kwdefaults__ or {}).values()
        for annotation in handler.__annotations__.values():
            for hint in _resolve(handler, annotation):
                yield from _list_metadata(hint)


def _resolve(owner: Any, annotation: Any) -> Iterator[Any]:
    """Yield the type that an annotation of a function or class names; nothing if it cannot be resolved."""
    names = getattr(owner, "__globals__", None) or vars(
        sys.modules.get(getattr(owner, "__module__", "")) or sys
    )
    with suppress(Exception):  # a name that is known to type checkers only
        holder = SimpleNamespace(__annotations__={"": annotation})
        yield get_type_hints(holder, names, get_closure(owner), include_extras=True)[""]


def _list_metadata(hint: Any) -> Iterator[Any]:
    """List the metadata of an `Annotated` type, and of the types in it."""
    yield from getattr(hint, "__metadata__", ())
    for argument in get_args(getattr(hint, "__value__", hint)):
        yield from _list_metadata(argument)
