"""Apply path rules to listed routes: which are paid, free or refused.

A row's access is never better than what a request gets: what cannot be served is refused.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from faregate.core.models import Offer
from faregate.middleware.path_rules import PathMatch, PathRules
from faregate.paywall import Paywall
from faregate.routes import WEBSOCKET, RouteInfo, RouteTable

# A part of a framework's path pattern that is no plain text: `{id}`, `<int:id>`, `:id`.
_PARAMETER = re.compile(r"[{<]|^:")
# One that may hold slashes, or a regular expression, which may hold anything.
_GREEDY = re.compile(r":path\b|\bpath:|[(\[*\\^$|]")


def apply_path_rules(
    routes: Iterable[RouteInfo],
    path_rules: PathRules | None = None,
    more: Sequence[str] = (),
    *,
    root: str = "",
    faults: Sequence[str] = (),
    mistakes: Sequence[str] = (),
    paywall: Callable[[], Paywall] | None = None,
) -> RouteTable:
    """The inventory of `routes`, seen on the `path_rules` of one paywall that stands in front of them.

    `root` is where the application behind that paywall is mounted. `more` are unmatched prefixes that are
    known already, as are `faults` and `mistakes`.
    """
    path_rules = path_rules or PathRules()
    routes = tuple(routes)
    seen = tuple(row for route in routes for row in _rows(route, path_rules, root, paywall))
    return RouteTable(
        tuple(row for row, _ in seen),
        (*more, *_lone(routes, path_rules, root)),
        (*faults, *(fault for _, fault in seen if fault)),
        tuple(mistakes),
    )


def _rows(
    route: RouteInfo, path_rules: PathRules, root: str, paywall: Callable[[], Paywall] | None
) -> Iterator[tuple[RouteInfo, str]]:
    """A route as it stands; before it, the prefixes a parameter of it leads to, where they differ."""
    own = _decide_access(route, path_rules.match(route.path, root), paywall)
    for prefix in sorted((*path_rules.offers, *path_rules.refused), key=len, reverse=True):
        narrow = _narrowed(route.path, prefix, root)
        if narrow is not None:
            row, fault = _decide_access(replace(route, path=narrow), path_rules.match(narrow, root), paywall)
            if (row.access, row.offer) != (own[0].access, own[0].offer):
                yield row, fault
    yield own


def _decide_access(
    route: RouteInfo, place: PathMatch, paywall: Callable[[], Paywall] | None
) -> tuple[RouteInfo, str]:
    """A route on its ground, and what is wrong with that."""
    fault = ""
    access, sold, own = route.access, route.offer, route.paywall or paywall
    if place.offer is not None and sold is None:
        sold, own = place.offer, paywall
    elif place.offer is not None and place.offer != sold and access == "paid":
        fault = _two_offers(route, place.offer)
    if fault or (route.methods == WEBSOCKET and place.protected):
        access = "refused"
    elif access != "refused":
        access = "paid" if sold is not None else "refused" if place.refused else "free"
    return replace(route, offer=sold, access=access, paywall=own), fault


def _two_offers(route: RouteInfo, ground: Offer) -> str:
    return (
        f"{route.verbs} {route.place} sells {route.sells!r}, and its path is sold as {ground.sells!r}: "
        "nobody can buy it. Put one offer on the handler or on its path."
    )


def _lone(routes: Sequence[RouteInfo], path_rules: PathRules, root: str) -> Iterator[str]:
    for prefix in dict.fromkeys((*path_rules.offers, *path_rules.refused)):
        stands = PathRules(refuse=[prefix])
        if not any(
            stands.match(route.path, root).refused or _narrowed(route.path, prefix, root) for route in routes
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
