"""What an application sells: every route as paid, free or refused, for people and for machines.

A framework's module walks its own routes into `Listed` rows; the rest is said here once. A row's
standing is never better than what a request gets: what cannot be served is refused.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from faregate.errors import FaregateError, ServiceError
from faregate.grounds import Grounds, Place
from faregate.model import Offer
from faregate.paywall import Paywall
from faregate.records import Fresh

Standing = Literal["paid", "free", "refused"]

WEBSOCKET = ("WEBSOCKET",)
"""In place of methods. Nothing can be sold over one: below a paid path it is refused."""

# A part of a framework's path pattern that is no plain text: `{id}`, `<int:id>`, `:id`.
_PARAMETER = re.compile(r"[{<]|^:")
# One that may hold slashes, or a regular expression, which may hold anything.
_GREEDY = re.compile(r":path\b|\bpath:|[(\[*\\^$|]")


@dataclass(frozen=True, slots=True)
class Listed:
    """One route. `path` is the framework's own pattern; no `methods` means any.

    `host` is there if the route answers on one host only. `paywall` gives the one in front of this
    route, where it is not the application's only one.
    """

    path: str
    methods: tuple[str, ...]
    handler: str
    offer: Offer | None = None
    standing: Standing = "free"
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
class Inventory:
    """All routes in the application's own order; the prefixes below which no route is; other mistakes."""

    routes: tuple[Listed, ...]
    unmatched: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def offers(self) -> tuple[Offer, ...]:
        return tuple(dict.fromkeys(route.offer for route in self.routes if route.offer is not None))

    @property
    def complaints(self) -> tuple[str, ...]:
        """What is wrong with it, as sentences."""
        lone = (f"Nothing is below {name}: no route matches this prefix." for name in self.unmatched)
        return (*lone, *self.faults)


def take_stock(
    routes: Iterable[Listed],
    grounds: Grounds | None = None,
    more: Sequence[str] = (),
    *,
    root: str = "",
    faults: Sequence[str] = (),
    paywall: Callable[[], Paywall] | None = None,
) -> Inventory:
    """The inventory of `routes`, seen on the `grounds` of one paywall that stands in front of them.

    `root` is where the application behind that paywall is mounted. `more` are unmatched prefixes and
    `faults` mistakes that are known already.
    """
    grounds = grounds or Grounds()
    routes = tuple(routes)
    seen = tuple(row for route in routes for row in _rows(route, grounds, root, paywall))
    return Inventory(
        tuple(row for row, _ in seen),
        (*more, *_lone(routes, grounds, root)),
        (*faults, *(fault for _, fault in seen if fault)),
    )


def check(paywall: Paywall | None, inventory: Inventory) -> list[str]:
    """What would keep this inventory from being sold, as sentences; asks journal and service. Blocking.

    A route's own paywall is asked for its offer, else the one that is given.
    """
    faults, asked = list(inventory.complaints), _by_paywall(paywall, inventory)
    for own, offers in asked.items():
        faults.extend((*_unwritable(own), *_unsellable(own, offers)))
    unasked = [offer.sells for offer in inventory.offers if not any(offer in one for one in asked.values())]
    faults.extend(f"{sells}: no paywall is in front, so nobody was asked." for sells in unasked)
    return faults


def as_table(inventory: Inventory) -> str:
    """For people: the routes, their numbers, and what is wrong."""
    head = ("STANDING", "METHODS", "PATH", "SELLS", "HANDLER")
    rows = [
        (route.standing, route.verbs, route.place, route.sells or "-", route.handler)
        for route in inventory.routes
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [_line(row, widths) for row in (head, *rows)] if rows else ["This application has no routes."]
    complaints = ("", *inventory.complaints) if inventory.complaints else ()
    return "\n".join((*lines, "", _counts(inventory), *complaints))


def as_json(inventory: Inventory) -> str:
    """For machines: `{"routes": [...], "unmatched": [...], "faults": [...]}`."""
    routes = [
        {
            "standing": route.standing,
            "methods": list(route.methods),
            "host": route.host or None,
            "path": route.path,
            "sells": route.sells or None,
            "handler": route.handler,
        }
        for route in inventory.routes
    ]
    told = {"routes": routes, "unmatched": list(inventory.unmatched), "faults": list(inventory.faults)}
    return json.dumps(told, indent=2)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _counts(inventory: Inventory) -> str:
    standings = [route.standing for route in inventory.routes]
    return ", ".join(f"{standings.count(standing)} {standing}" for standing in ("paid", "free", "refused"))


# What the service says


def _by_paywall(paywall: Paywall | None, inventory: Inventory) -> dict[Paywall, dict[Offer, None]]:
    asked: dict[Paywall, dict[Offer, None]] = {} if paywall is None else {paywall: {}}
    for route in inventory.routes:
        own = paywall if route.paywall is None else route.paywall()
        if own is not None and route.offer is not None:
            asked.setdefault(own, {})[route.offer] = None
    return asked


def _unwritable(paywall: Paywall) -> Iterator[str]:
    """Takes a claim and drops it."""
    journal = paywall.world.journal
    try:
        claim = journal.claim(f"faregate check {secrets.token_hex(16)}", "CHECK /")
        if isinstance(claim, Fresh):
            journal.drop(claim.ticket)
    except Exception as error:
        yield f"The journal cannot be written: {error}"


def _unsellable(paywall: Paywall, offers: Iterable[Offer]) -> Iterator[str]:
    for offer in offers:
        try:
            paywall.world.rules(offer)
        except ServiceError as error:
            # It would say the same of every offer.
            yield f"The merchant service does not say what is sold: {error}"
            return
        except FaregateError as error:
            yield f"{offer.sells}: {error}"


# What the grounds say


def _rows(
    route: Listed, grounds: Grounds, root: str, paywall: Callable[[], Paywall] | None
) -> Iterator[tuple[Listed, str]]:
    """A route as it stands; before it, the prefixes a parameter of it leads to, where they differ."""
    own = _standing(route, grounds.place(route.path, root), paywall)
    for prefix in sorted((*grounds.offers, *grounds.refused), key=len, reverse=True):
        narrow = _narrowed(route.path, prefix, root)
        if narrow is not None:
            row, fault = _standing(replace(route, path=narrow), grounds.place(narrow, root), paywall)
            if (row.standing, row.offer) != (own[0].standing, own[0].offer):
                yield row, fault
    yield own


def _standing(route: Listed, place: Place, paywall: Callable[[], Paywall] | None) -> tuple[Listed, str]:
    """A route on its ground, and what is wrong with that."""
    fault = ""
    standing, sold, own = route.standing, route.offer, route.paywall or paywall
    if place.offer is not None and sold is None:
        sold, own = place.offer, paywall
    elif place.offer is not None and place.offer != sold and standing == "paid":
        fault = _two_offers(route, place.offer)
    if fault or (route.methods == WEBSOCKET and place.guarded):
        standing = "refused"
    elif standing != "refused":
        standing = "paid" if sold is not None else "refused" if place.closed else "free"
    return replace(route, offer=sold, standing=standing, paywall=own), fault


def _two_offers(route: Listed, ground: Offer) -> str:
    return (
        f"{route.verbs} {route.place} sells {route.sells!r}, and its path is sold as {ground.sells!r}: "
        "nobody can buy it. Put one offer on the handler or on its path."
    )


def _lone(routes: Sequence[Listed], grounds: Grounds, root: str) -> Iterator[str]:
    for prefix in dict.fromkeys((*grounds.offers, *grounds.refused)):
        stands = Grounds(refuse=[prefix])
        if not any(
            stands.place(route.path, root).closed or _narrowed(route.path, prefix, root) for route in routes
        ):
            yield prefix


def _narrowed(pattern: str, prefix: str, root: str) -> str | None:
    """The pattern below this prefix, if only a parameter of it leads there; with and without the root."""
    narrow = _below(pattern, prefix)
    if narrow is None and root and pattern.startswith(root):
        narrow = _below(pattern[len(root) :], prefix)
        return None if narrow is None else root + narrow
    return narrow


def _below(pattern: str, prefix: str) -> str | None:
    given, wanted = _parts(pattern), _parts(prefix)
    led = False
    for have, want in zip(given, wanted, strict=False):
        if _GREEDY.search(have):
            return f"{prefix.rstrip('/')}/*"
        parameter = _PARAMETER.search(have)
        if parameter is None and have.casefold() != want:
            return None
        if parameter is not None and not want.startswith(have[: parameter.start()].casefold()):
            return None
        led = led or parameter is not None
    return "/" + "/".join((*wanted, *given[len(wanted) :])) if led and len(given) >= len(wanted) else None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
