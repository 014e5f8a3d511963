"""What a Django project sells: its urlconf as `faregate.inventory` lists it."""

from collections.abc import Iterator
from typing import Any

from django.urls import URLResolver, get_resolver
from django.views import View

from faregate.django.conf import shop
from faregate.django.sold import class_of, offer_of, offers_by_method
from faregate.inventory import Inventory, Listed
from faregate.inventory.taking import take_stock

_METHODS = tuple(name.upper() for name in View.http_method_names if name != "options")


def inventory_of() -> Inventory:
    """Every route of the project as paid, free or refused. Raises `Misconfigured`."""
    made = shop()
    rows = list(_walk(get_resolver(), "/"))
    faults = [_two_offers(row) for row in rows if row.standing == "refused"]
    return take_stock(rows, made.grounds, faults=faults, paywall=lambda: made.paywall)


def _walk(resolver: Any, above: str) -> Iterator[Listed]:
    for pattern in resolver.url_patterns:
        path = above + str(pattern.pattern).removeprefix("^")
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern, path)
        else:
            yield from _listed(pattern.callback, path.removesuffix("$").removesuffix("\\Z"))


def _listed(view: Any, path: str) -> Iterator[Listed]:
    """One row for a view, or several where its methods are sold differently."""
    named = class_of(view) or view
    name = f"{named.__module__}.{getattr(named, '__qualname__', type(named).__name__)}"
    own, by_method = offer_of(view), offers_by_method(view, _METHODS)
    if own is not None:
        twice = any(sold not in (None, own) for sold in by_method.values())
        yield Listed(path, (), name, own, "refused" if twice else "paid")
        return
    groups: dict[Any, list[str]] = {}
    for method, sold in by_method.items():
        groups.setdefault(sold, []).append(method)
    if not any(groups):
        yield Listed(path, (), name)
        return
    for sold, methods in groups.items():
        yield Listed(path, tuple(sorted(methods)), name, sold, "free" if sold is None else "paid")


def _two_offers(row: Listed) -> str:
    return (
        f"{row.path} sells {row.sells!r}, and a method of it something else: nobody can buy that. "
        "Put one offer on the class or on its methods."
    )
