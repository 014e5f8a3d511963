"""List what an application sells: every route as paid, free or refused.

The adapter of a framework lists its routes as `RouteInfo`. `pricing` applies the path rules of the paywall in
front of them, `inspect` finds the adapter of any application, and `check` finds what keeps offers from being
sold. `dispatch` finds the handler of one request, for adapters.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from faregate.core.models import Offer
from faregate.paywall import Paywall

RouteAccess = Literal["paid", "free", "refused"]

WEBSOCKET = ("WEBSOCKET",)
"""The `methods` of a websocket. Nothing can be sold over one: below a paid path it is refused."""


@dataclass(frozen=True, slots=True)
class RouteInfo:
    """One route. `path` is the framework's own pattern; no `methods` means any.

    `host` is set if the route answers on one host only, and `paywall` if there is one in front of it.
    `endpoint` is what Starlette or FastAPI calls; None where the framework is another.
    `is_hidden`: the seller keeps it out of documents, by `include_in_schema=False`.
    """

    path: str
    methods: tuple[str, ...]
    handler: str
    offer: Offer | None = None
    access: RouteAccess = "free"
    host: str = ""
    paywall: Callable[[], Paywall] | None = field(default=None, compare=False, repr=False)
    endpoint: object = field(default=None, compare=False, repr=False)
    is_hidden: bool = False

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
    """All routes in the application's own order.

    `unmatched` are declared prefixes below which there is no route. `mistakes` would give something away:
    an application that makes one does not start. `faults` are other problems. `paywall` is the one in front
    of all routes, if there is one.
    """

    routes: tuple[RouteInfo, ...]
    unmatched: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    paywall: Callable[[], Paywall] | None = field(default=None, compare=False, repr=False)

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Every offer that a route sells, also each of those among which a request chooses."""
        sold = (route.offer for route in self.routes if route.offer is not None)
        return tuple(dict.fromkeys(alternative for offer in sold for alternative in offer.alternatives))

    def group_offers(self) -> dict[Paywall, list[Offer]]:
        """Group the different offers by the paywall in front of their route, in the order of the routes.

        A paywall in front of all routes is there even if nothing is sold with it. Raises
        `ConfigurationError` for a paywall that cannot be made.
        """
        offers = dict[Paywall, list[Offer]]()
        if self.paywall is not None:
            offers[self.paywall()] = []
        for route in self.routes:
            if route.offer is not None and route.paywall is not None:
                sold = offers.setdefault(route.paywall(), [])
                sold += [alternative for alternative in route.offer.alternatives if alternative not in sold]
        return offers

    def expect_offers(self) -> None:
        """Have it checked that the service knows the offers: see `Paywall.expect`.

        Raises `ConfigurationError`.
        """
        for paywall, offers in self.group_offers().items():
            paywall.expect_offers(offers)

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong, as sentences."""
        unmatched = (f"Nothing is below {name}: no route matches this prefix." for name in self.unmatched)
        return (*unmatched, *self.faults, *self.mistakes)
