"""The paywalls that stand in front of an application, seen from outside: what wraps what.

Neutral: a layer is whatever keeps the application it wraps as `app`, as middleware of both protocols does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from faregate.grounds import Grounds
from faregate.inventory import Inventory, Listed
from faregate.inventory.taking import take_stock
from faregate.paywall import Paywall

ANYTHING = "/*"


@dataclass(frozen=True, slots=True)
class Front:
    """One paywall middleware. `paywall` makes or gives its paywall: listing routes needs no settings."""

    grounds: Grounds
    paywall: Callable[[], Paywall]

    def behind(self, inventory: Inventory, root: str = "") -> Inventory:
        """What is behind this front, as payers find it; `root` is where that is mounted."""
        return take_stock(
            inventory.routes,
            self.grounds,
            inventory.unmatched,
            root=root,
            faults=inventory.faults,
            paywall=self.paywall,
        )


def layers(app: Any) -> list[Any]:
    """From the outside in: each layer, and at last the application itself, which has routes or no `app`."""
    found = [app]
    while not hasattr(found[-1], "routes"):
        inner = getattr(found[-1], "app", None) or getattr(found[-1], "application", None)
        if not callable(inner) or any(inner is one for one in found):
            break
        found.append(inner)
    return found


def front_of(layer: Any) -> Front | None:
    """The paywall that a layer is, if it is one. Raises the `Misconfigured` it was made with."""
    mistake = getattr(layer, "mistake", None)
    if isinstance(mistake, Exception):
        raise mistake
    grounds, paywall = getattr(layer, "grounds", None), getattr(layer, "paywall", None)
    if not isinstance(grounds, Grounds) or not isinstance(paywall, Paywall):
        return None
    return Front(grounds, partial(_given, paywall))


def front_to_be(arguments: Sequence[Any], options: Mapping[str, Any]) -> Front:
    """The paywall that a middleware of these arguments will be. Raises `Misconfigured`."""
    rest = dict(options)
    grounds = Grounds(rest.pop("offers", None), rest.pop("refuse", ()))
    for name in ("sweep_every", "drain_seconds"):
        rest.pop(name, None)
    paywall = arguments[0] if arguments else rest.pop("paywall", None)
    return Front(grounds, cache(partial(Paywall, **rest)) if paywall is None else partial(_given, paywall))


def behind(fronts: Sequence[Front], inventory: Inventory, root: str = "") -> Inventory:
    """What is behind several fronts, the outermost first."""
    for front in reversed(fronts):
        inventory = front.behind(inventory, root)
    return inventory


def unguarded(inventory: Inventory) -> Iterator[str]:
    """What is for sale without a paywall in front: such a handler is an error, never free."""
    for route in inventory.routes:
        if route.offer is not None and route.paywall is None:
            yield f"{route.verbs} {route.place} sells {route.sells!r}, and no PaywallMiddleware is in front."


def opaque(app: Any, path: str = ANYTHING, host: str = "") -> Inventory:
    """An application whose routes nobody can list."""
    return Inventory((Listed(path, (), handler_name(app), host=host),))


def handler_name(handler: Any) -> str:
    """Where a person finds it: `shop.reports.today`; for an object, its class."""
    while isinstance(handler, partial):
        handler = handler.func
    named: Any = handler if hasattr(handler, "__qualname__") else getattr(handler, "__class__", None)
    return f"{named.__module__}.{named.__qualname__}".replace("<locals>.", "")


def _given(paywall: Paywall) -> Paywall:
    return paywall
