"""Apply path rules to listed routes: which are paid, free or refused.

A route is never listed as better than what a request gets: what cannot be served is refused.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from faregate.checkout.path_rules import PathMatch, PathRules
from faregate.core.models import Offer
from faregate.paywall import Paywall
from faregate.routes import WEBSOCKET, RouteAccess, RouteInfo, RouteTable

GetPaywall = Callable[[], Paywall]

# A part of a framework's path pattern that is not plain text: `{id}`, `<int:id>`, `:id`.
_PARAMETER = re.compile(r"[{<]|^:")
# One that may hold slashes, or a regular expression, which may hold anything.
_GREEDY = re.compile(r":path\b|\bpath:|[(\[*\\^$|]")


def apply_path_rules(
    table: RouteTable, rules: PathRules, root: str = "", paywall: GetPaywall | None = None
) -> RouteTable:
    """The routes behind a paywall with these path rules, as payers find them.

    `root` is where the application behind the paywall is mounted.
    """
    rows, faults, mistakes = list[RouteInfo](), [*table.faults], [*table.mistakes]
    for route in table.routes:
        for row, fault in _build_rows(route, rules, root, paywall):
            rows.append(row)
            if fault:
                # Another route may answer for the part of a pattern that is below a prefix.
                (mistakes if row.path == route.path else faults).append(fault)
    unmatched = (*table.unmatched, *_find_unmatched(table.routes, rules, root))
    return RouteTable(tuple(rows), unmatched, tuple(faults), tuple(mistakes), paywall)


def _build_rows(
    route: RouteInfo, rules: PathRules, root: str, paywall: GetPaywall | None
) -> Iterator[tuple[RouteInfo, str]]:
    """A route with its access, and a fault or "".

    Before it, the prefixes that only a parameter of it reaches, if their access differs: `/{name}` is free
    and `/reports` is paid.
    """
    own_row, fault = _decide_access(route, rules.match(route.path, root), paywall)
    # The longest first, as the rules are applied.
    for prefix in sorted((*rules.offers, *rules.refused), key=len, reverse=True):
        path = _narrow_to_prefix(route.path, prefix, root)
        if path is not None:
            row, its_fault = _decide_access(replace(route, path=path), rules.match(path, root), paywall)
            if (row.access, row.offer) != (own_row.access, own_row.offer):
                yield row, its_fault
    yield own_row, fault


def _decide_access(route: RouteInfo, match: PathMatch, paywall: GetPaywall | None) -> tuple[RouteInfo, str]:
    fault, access, offer = "", route.access, route.offer
    # An offer on the handler belongs to the innermost paywall, an offer on the path to the one that has it.
    own = route.paywall or paywall
    if match.offer is not None and offer is None:
        offer, own = match.offer, paywall
    elif match.offer is not None and match.offer != offer and access == "paid":
        fault = _describe_two_offers(route, match.offer)
    if fault or (route.methods == WEBSOCKET and match.protected):
        access = "refused"
    elif access != "refused":
        access = "paid" if offer is not None else "refused" if match.refused else "free"
    return replace(route, offer=offer, access=access, paywall=own), fault


def build_row(
    path: str, methods: Sequence[str], handler: str, offers: Sequence[Offer], host: str = ""
) -> RouteInfo:
    """Build the row of a handler: free without an offer, refused with several."""
    access: RouteAccess = "free" if not offers else "paid" if len(offers) == 1 else "refused"
    return RouteInfo(path, tuple(methods), handler, offers[0] if offers else None, access, host)


def describe_several_offers(row: RouteInfo, offers: Sequence[Offer]) -> str:
    named = " and ".join(repr(offer.sells) for offer in offers)
    return f"{row.verbs} {row.place} sells {named}: no payer can buy it. Keep one offer."


def _describe_two_offers(route: RouteInfo, path_offer: Offer) -> str:
    return (
        f"{route.verbs} {route.place} sells {route.sells!r}, and its path is sold as {path_offer.sells!r}: "
        "no payer can buy it. Put one offer on the handler or on its path."
    )


def _find_unmatched(routes: Sequence[RouteInfo], rules: PathRules, root: str) -> Iterator[str]:
    for prefix in dict.fromkeys((*rules.offers, *rules.refused)):
        only = type(rules)(refuse=[prefix])
        if not any(
            only.match(route.path, root).refused or _narrow_to_prefix(route.path, prefix, root)
            for route in routes
        ):
            yield prefix


def _narrow_to_prefix(pattern: str, prefix: str, root: str) -> str | None:
    """The part of a pattern that is below a prefix, if only a parameter reaches it; None otherwise.

    The pattern is tried with and without the root.
    """
    path = _narrow(pattern, prefix)
    if path is None and root and pattern.startswith(root):
        path = _narrow(pattern[len(root) :], prefix)
        return None if path is None else root + path
    return path


def _narrow(pattern: str, prefix: str) -> str | None:
    parts, wanted = _split(pattern), _split(prefix)
    has_parameter = False
    for part, want in zip(parts, wanted, strict=False):
        if _GREEDY.search(part):
            return f"{prefix.rstrip('/')}/*"
        parameter = _PARAMETER.search(part)
        if parameter is None and part.casefold() != want:
            return None
        if parameter is not None and not want.startswith(part[: parameter.start()].casefold()):
            return None
        has_parameter = has_parameter or parameter is not None
    if not has_parameter or len(parts) < len(wanted):
        return None
    return "/" + "/".join((*wanted, *parts[len(wanted) :]))


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
