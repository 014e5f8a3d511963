"""Find what a resolved view sells, without running it."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any

from django.db import connections

from faregate.checkout.handlers import OFFER, find_offers, is_price
from faregate.checkout.wrapped_callables import get_closure, get_module, walk
from faregate.core.models import Offer

# Where Django and REST framework make the functions of class-based views, and wrap them unasked.
_CLASS_VIEWS = ("django.views.generic.base", "rest_framework.viewsets")
_TRANSPARENT = "django.views.decorators.csrf"
_API_VIEW = "rest_framework.decorators"
_GENERIC_VIEWS = "rest_framework.generics"
_MIXIN_METHODS = frozenset(("list", "create", "retrieve", "update", "partial_update", "destroy"))
# Their `dispatch` answers nothing that could be sold before a method runs: it refuses, or calls the method.
_DISPATCHERS = ("django.views.generic.base", "rest_framework.views")


def find_early_offer(view: Any, method: str) -> Offer | None:
    """Find the offer of a view that applies before any other code of it runs, such as a check of the login.

    A price on a method comes after the class's own checks, unless they run in a transaction: what is
    written of a payment must not be rolled back with it.
    """
    while get_module(view) == _TRANSPARENT and hasattr(view, "__wrapped__"):
        view = view.__wrapped__
    if get_module(view) in _CLASS_VIEWS:
        dispatch = getattr(get_view_class(view), "dispatch", None)
        if get_module(dispatch) in _DISPATCHERS:
            return _outermost(_handler(view, method)) if _is_atomic(view) else None
        return _outermost(dispatch)
    return _outermost(view)


def _outermost(view: Any) -> Offer | None:
    """The price above everything else: `wraps` hands marks on, so a mark alone does not say that."""
    if is_price(view):
        return _offer_on(view)
    if get_module(view) == "django.utils.decorators":
        # The outermost decorator that `method_decorator` applied; a login there comes before the price.
        decorators: Any = get_closure(view).get("decorators")
        return _offer_on(decorators[-1]) if decorators else None
    return None


def _handler(view: Any, method: str) -> Any:
    """The method of a class-based view that serves this request."""
    class_view = _find_class_view(view)
    actions: dict[str, str] = getattr(class_view, "actions", None) or {}
    # Views of classes answer HEAD with `get`.
    for name in (method.lower(), "get") if method == "HEAD" else (method.lower(),):
        handler = getattr(get_view_class(class_view), actions.get(name, name), None)
        if handler is not None:
            # REST framework's `api_view` makes a class whose methods call the function.
            return get_closure(handler).get("func") if get_module(handler) == _API_VIEW else handler
    return None


def _is_atomic(view: Any) -> bool:
    return any(is_atomic_in(alias, view) for alias in connections.settings)


def is_atomic_in(alias: str, view: Any) -> bool:
    """Whether Django wraps this view in a transaction of a database (`BaseHandler.make_view_atomic`)."""
    outside: Any = getattr(view, "_non_atomic_requests", ())
    databases: dict[str, Any] = connections.settings
    return bool(databases[alias]["ATOMIC_REQUESTS"]) and alias not in outside


def list_offers(view: Any, method: str) -> tuple[Offer, ...]:
    """Everything that a view sells to requests with this method, wherever on it that is said."""
    handlers = list_handlers(view, (method,)).get(method, ())
    return _unique(
        *list_shared_offers(view), *(sold for handler in handlers for sold in find_offers(handler))
    )


@lru_cache(maxsize=1024)
def find_sources(view: Any, method: str) -> tuple[object, ...]:
    """Find what describes a view to payers: the handlers of this method, then the view itself."""
    return (*list_handlers(view, (method,)).get(method, ()), view)


def list_shared_offers(view: Any) -> tuple[Offer, ...]:
    """List the offers of a view that apply to all of its methods."""
    return _unique(*find_offers(view), *find_offers(getattr(get_view_class(view), "dispatch", None)))


def list_handlers(view: Any, methods: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """List the handlers of a class's methods, or of django-ninja's operations; empty for a function."""
    kind = get_view_class(view)
    handlers = ((method, _handler(view, method)) for method in methods)
    called = {
        method: (handler, *_list_called(kind, handler)) for method, handler in handlers if handler is not None
    }
    for operation in list_operations(view):
        # Its `run` may be decorated as well as its function.
        called |= dict.fromkeys(operation.methods, (operation.run, operation.view_func))
    return called


def _list_called(kind: Any, handler: Any) -> Iterator[Any]:
    """List the methods that a handler of REST framework's generic views calls: `get` calls `list`."""
    if isinstance(handler, FunctionType) and get_module(handler) == _GENERIC_VIEWS:
        for name in handler.__code__.co_names:
            if name in _MIXIN_METHODS and hasattr(kind, name):
                yield getattr(kind, name)


def list_operations(view: Any) -> Iterator[Any]:
    """List the operations of django-ninja that a view answers with; none for any other view."""
    for part in walk(view):
        yield from getattr(get_closure(part).get("self"), "operations", ())


def get_view_class(view: Any) -> Any:
    """Of a class-based view, however it is decorated; None for a function."""
    class_view = _find_class_view(view)
    # REST framework's viewsets have it as `cls`.
    return getattr(class_view, "view_class", None) or getattr(class_view, "cls", None)


def _find_class_view(view: Any) -> Any:
    """Find the view that `as_view` made: it has the class for an attribute."""
    functions = (part for part in walk(view) if isinstance(part, FunctionType))
    return next(
        (function for function in functions if hasattr(function, "view_class") or hasattr(function, "cls")),
        None,
    )


def _unique(*offers: Offer) -> tuple[Offer, ...]:
    return tuple(dict.fromkeys(offers))


def _offer_on(view: object) -> Offer | None:
    sold = getattr(view, OFFER, None)
    return sold if isinstance(sold, Offer) else None
