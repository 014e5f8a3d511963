"""List what an application sells: every route as paid, free or refused.

The module of a framework lists its routes as `RouteInfo`. `resolve` applies the path rules of the paywall in
front of them, `check` finds what would keep them from being sold, `table` formats them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from faregate.core.models import Offer
from faregate.paywall import Paywall

RouteAccess = Literal["paid", "free", "refused"]

WEBSOCKET = ("WEBSOCKET",)
"""In place of methods. Nothing can be sold over one: below a paid path it is refused."""


@dataclass(frozen=True, slots=True)
class RouteInfo:
    """One route. `path` is the framework's own pattern; no `methods` means any.

    `host` is there if the route answers on one host only. `paywall` gives the one in front of this
    route, where it is not the application's only one.
    """

    path: str
    methods: tuple[str, ...]
    handler: str
    offer: Offer | None = None
    access: RouteAccess = "free"
    host: str = ""
    paywall: Callable[[], Paywall] | None = field(default=None, compare=False, repr=False)

    @property
    def sells(self) -> str:
        return "" if self.offer is None else self.offer.sells

    @property
    def place(self) -> str:
        return f"{self.host}{self.path}"

    @property
    def verbs(self) -> str:
        return ",".join(self.methods) or "any"


@dataclass(frozen=True, slots=True)
class RouteTable:
    """All routes in the application's own order; the prefixes below which no route is; other faults.

    `mistakes` are those that would give something away: an application that makes one does not start.
    """

    routes: tuple[RouteInfo, ...]
    unmatched: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()

    @property
    def offers(self) -> tuple[Offer, ...]:
        return tuple(dict.fromkeys(route.offer for route in self.routes if route.offer is not None))

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with it, as sentences."""
        lone = (f"Nothing is below {name}: no route matches this prefix." for name in self.unmatched)
        return (*lone, *self.faults, *self.mistakes)
