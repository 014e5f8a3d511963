"""What a resolved view sells, as far as it can be seen without running it."""

from collections.abc import Sequence
from typing import Any, cast

from django.db import connections

from faregate.django.views import GUARD, OFFER
from faregate.model import Offer

# Where Django and REST framework make the functions of class-based views, and wrap them unasked.
_CLASS_VIEWS = ("django.views.generic.base", "rest_framework.viewsets")
_TRANSPARENT = "django.views.decorators.csrf"
_API_VIEW = "rest_framework.decorators"
# Their `dispatch` answers nothing that could be sold before a method runs: it refuses, or calls the method.
_DISPATCHERS = ("django.views.generic.base", "rest_framework.views")


def offer_at_the_door(view: Any, method: str) -> Offer | None:
    """What a view sells before anything else of it runs: not what stands below a login.

    A price on a method comes after the class's own checks, unless they run in a transaction: what is
    written of a payment must not be rolled back with it.
    """
    while _made_in(view) == _TRANSPARENT and hasattr(view, "__wrapped__"):
        view = view.__wrapped__
    if _made_in(view) in _CLASS_VIEWS:
        dispatch = getattr(class_of(view), "dispatch", None)
        if _made_in(dispatch) in _DISPATCHERS:
            return _outermost(_handler(view, method)) if _is_atomic(view) else None
        return _outermost(dispatch)
    return _outermost(view)


def _outermost(view: Any) -> Offer | None:
    """The price above everything else: `wraps` hands marks on, so a mark alone does not say that."""
    if getattr(view, GUARD, None) is view:
        return _offer_on(view)
    if _made_in(view) == "django.utils.decorators":
        # What `method_decorator` put outermost; a login there comes before the price.
        decorators: Any = _closed_over(view, "decorators")
        return _offer_on(decorators[-1]) if decorators else None
    return None


def _handler(view: Any, method: str) -> Any:
    """The method of a class-based view that serves this request."""
    actions: dict[str, str] = getattr(view, "actions", None) or {}
    for name in (method.lower(), "get") if method == "HEAD" else (method.lower(),):
        handler = getattr(class_of(view), actions.get(name, name), None)
        if handler is not None:
            # REST framework's `api_view` makes a class whose methods call the function.
            return _closed_over(handler, "func") if _made_in(handler) == _API_VIEW else handler
    return None


def _is_atomic(view: Any) -> bool:
    """Whether Django wraps this view in a transaction (`BaseHandler.make_view_atomic`)."""
    outside: Any = getattr(view, "_non_atomic_requests", ())
    databases: dict[str, Any] = connections.settings
    return any(one["ATOMIC_REQUESTS"] and alias not in outside for alias, one in databases.items())


def offer_of(view: Any) -> Offer | None:
    """What a view sells to everybody, wherever on it that is said."""
    return _offer_on(view) or _offer_on(getattr(class_of(view), "dispatch", None))


def offers_by_method(view: Any, methods: Sequence[str]) -> dict[str, Offer | None]:
    """What the methods of a class, or the operations of django-ninja, sell; empty for a function."""
    handlers = {method: _handler(view, method) for method in methods}
    found = {method: _offer_on(handler) for method, handler in handlers.items() if handler is not None}
    operations: Any = getattr(_closed_over(view, "self"), "operations", ())
    for operation in operations:
        found |= dict.fromkeys(operation.methods, _offer_on(operation.view_func))
    return found


def class_of(view: Any) -> Any:
    """Of a class-based view; REST framework's viewsets name theirs otherwise."""
    return getattr(view, "view_class", None) or getattr(view, "cls", None)


def _offer_on(view: object) -> Offer | None:
    sold = getattr(view, OFFER, None)
    return sold if isinstance(sold, Offer) else None


def _made_in(view: Any) -> str:
    """The module whose code this is, whatever it wraps."""
    return str(getattr(view, "__globals__", {}).get("__name__", ""))


def _closed_over(function: Any, name: str) -> Any:
    """What a function knows by this name from where it was made."""
    names = cast("tuple[str, ...]", getattr(getattr(function, "__code__", None), "co_freevars", ()))
    cells: Any = getattr(function, "__closure__", None) or ()
    return next((cell.cell_contents for known, cell in zip(names, cells, strict=True) if known == name), None)
