"""What an application sells: every route as paid, free or refused, for people and for machines.

A framework's module walks its own routes into `Listed` rows; the rest is said here once.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from faregate.errors import FaregateError
from faregate.grounds import Grounds
from faregate.model import Offer
from faregate.paywall import Paywall

Standing = Literal["paid", "free", "refused"]

# Where a framework's path pattern stops being plain text: `{id}`, `<int:id>`, `(?P<id>...)`, `:id`.
_PARAMETER = re.compile(r"[{<(\[*]|/:")


@dataclass(frozen=True, slots=True)
class Listed:
    """One route. `path` is the framework's own pattern; no `methods` means any."""

    path: str
    methods: tuple[str, ...]
    handler: str
    offer: Offer | None = None
    standing: Standing = "free"

    @property
    def sells(self) -> str:
        return "" if self.offer is None else self.offer.sells


@dataclass(frozen=True, slots=True)
class Inventory:
    """All routes of an application, and the declarations that sell or refuse nothing."""

    routes: tuple[Listed, ...]
    unmatched: tuple[str, ...] = ()

    @property
    def offers(self) -> tuple[Offer, ...]:
        return tuple(dict.fromkeys(route.offer for route in self.routes if route.offer is not None))


def take_stock(
    routes: Iterable[Listed], grounds: Grounds | None = None, more: Sequence[str] = ()
) -> Inventory:
    """The inventory of `routes`, seen on their `grounds`; `more` are unmatched declarations known already."""
    grounds = grounds or Grounds()
    listed = tuple(_standing(route, grounds) for route in routes)
    prefixes = (*grounds.offers, *grounds.refused)
    lone = (prefix for prefix in prefixes if not any(_reaches(route.path, prefix) for route in listed))
    return Inventory(listed, (*more, *lone))


def check(paywall: Paywall, inventory: Inventory) -> list[str]:
    """What would keep this inventory from being sold, as sentences; asks the service. Blocking."""
    faults = [f"{name}: declared, and no route is there" for name in inventory.unmatched]
    for offer in inventory.offers:
        try:
            paywall.world.rules(offer)
        except FaregateError as error:
            faults.append(f"{offer.sells}: {error}")
    return faults


def as_table(inventory: Inventory) -> str:
    """For people."""
    head = ("", "methods", "path", "sells", "handler")
    rows = [
        (route.standing, ",".join(route.methods) or "any", route.path, route.sells or "-", route.handler)
        for route in inventory.routes
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [_line(row, widths) for row in (head, *rows)]
    counts = ", ".join(
        f"{sum(route.standing == standing for route in inventory.routes)} {standing}"
        for standing in ("paid", "free", "refused")
    )
    lone = [f"nothing is below {name}: is it spelt right?" for name in inventory.unmatched]
    return "\n".join((*lines, "", counts, *lone))


def as_json(inventory: Inventory) -> str:
    """For machines: `{"routes": [...], "unmatched": [...]}`."""
    routes = [
        {
            "standing": route.standing,
            "methods": list(route.methods),
            "path": route.path,
            "sells": route.sells or None,
            "handler": route.handler,
        }
        for route in inventory.routes
    ]
    return json.dumps({"routes": routes, "unmatched": list(inventory.unmatched)}, indent=2)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _standing(route: Listed, grounds: Grounds) -> Listed:
    place = grounds.place(route.path)
    sold = route.offer or place.offer
    standing: Standing = "paid" if sold is not None else "refused" if place.closed else "free"
    return Listed(route.path, route.methods, route.handler, sold, standing)


def _reaches(pattern: str, prefix: str) -> bool:
    """Whether a route can answer below a prefix: it stands there, or a parameter of it may lead there."""
    found = _PARAMETER.search(pattern)
    head = pattern if found is None else pattern[: found.start()]
    stands = Grounds(refuse=[prefix]).place(head).closed
    return stands or (found is not None and prefix.startswith(head.casefold().rstrip("/")))
