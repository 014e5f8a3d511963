"""What a resolved view sells, as far as it can be seen without running it."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from faregate.django.views import GUARD, OFFER
from faregate.model import Offer

# Where Django and REST framework make the functions of class-based views, and wrap them unasked.
_CLASS_VIEWS = ("django.views.generic.base", "rest_framework.viewsets")
_TRANSPARENT = "django.views.decorators.csrf"


def offer_at_the_door(view: Any) -> Offer | None:
    """What a view sells before anything else of it runs: not what stands below a login."""
    while _made_in(view) == _TRANSPARENT and hasattr(view, "__wrapped__"):
        view = view.__wrapped__
    if _made_in(view) in _CLASS_VIEWS:
        # What `method_decorator` put outermost on the class; a login there comes before the price.
        decorators: Any = _closed_over(getattr(_class_of(view), "dispatch", None), "decorators")
        return _offer_on(decorators[-1]) if decorators else None
    return _offer_on(view) if getattr(view, GUARD, None) is view else None


def offer_of(view: Any) -> Offer | None:
    """What a view sells to everybody, wherever on it that is said."""
    return _offer_on(view) or _offer_on(getattr(_class_of(view), "dispatch", None))


def offers_by_method(view: Any, methods: Sequence[str]) -> dict[str, Offer | None]:
    """What the methods of a class, or the operations of django-ninja, sell; empty for a function."""
    found = {method: _offer_on(handler) for method, handler in _handlers(view, methods)}
    operations: Any = getattr(_closed_over(view, "self"), "operations", ())
    for operation in operations:
        found |= dict.fromkeys(operation.methods, _offer_on(operation.view_func))
    return found


def _handlers(view: Any, methods: Sequence[str]) -> Iterator[tuple[str, Any]]:
    actions: dict[str, str] = getattr(view, "actions", None) or {}
    for method in methods:
        handler = getattr(_class_of(view), actions.get(method.lower(), method.lower()), None)
        if handler is not None:
            # REST framework's `api_view` makes a class whose methods call the function.
            yield method, _closed_over(handler, "func") or handler


def _class_of(view: Any) -> Any:
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
