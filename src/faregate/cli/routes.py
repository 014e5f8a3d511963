"""`routes` and `check`: list what an application sells, and check that it can be sold."""

import json as jsonlib

from faregate.cli.terminal import count, format_table, prints_json
from faregate.commands import Echo
from faregate.core.models import OfferChoice
from faregate.routes import RouteInfo, RouteTable
from faregate.routes.check import check, describe_instructions, describe_journals
from faregate.routes.crawler_check import check_url
from faregate.routes.unsold_prices import describe_unsold

_HEAD = ("ACCESS", "METHODS", "PATH", "SELLS", "HANDLER")


def run_routes(table: RouteTable, echo: Echo, *, json: bool, text: bool) -> int:
    """Print every route, and what is wrong. Returns 1 if something is."""
    echo(format_as_json(table) if prints_json(json, text) else format_as_text(table))
    return 1 if table.problems else 0


def format_as_text(table: RouteTable) -> str:
    """The routes, how many there are of each kind, and what is wrong."""
    rows = [
        (route.access, route.verbs, route.place, route.sells or "-", route.handler) for route in table.routes
    ]
    accesses = [route.access for route in table.routes]
    counts = ", ".join(f"{accesses.count(access)} {access}" for access in ("paid", "free", "refused"))
    routes = format_table(rows, _HEAD) if rows else "This application has no routes."
    return "\n".join((routes, "", counts, *(("", *table.problems) if table.problems else ())))


def format_as_json(table: RouteTable) -> str:
    """`{"routes": [...], "unmatched": [...], "faults": [...]}`."""
    routes = [
        {
            "access": route.access,
            "methods": list(route.methods),
            "host": route.host or None,
            "path": route.path,
            "sells": route.sells or None,
            **_describe_choice(route),
            "handler": route.handler,
        }
        for route in table.routes
    ]
    faults = [*table.faults, *table.mistakes]
    return jsonlib.dumps({"routes": routes, "unmatched": list(table.unmatched), "faults": faults}, indent=2)


def _describe_choice(route: RouteInfo) -> dict[str, list[str]]:
    """The names among which a request chooses; nothing where it does not."""
    return (
        {"among": [offer.sells for offer in route.offer.among]}
        if isinstance(route.offer, OfferChoice)
        else {}
    )


def run_check(seller: RouteTable | str, echo: Echo, *, json: bool, text: bool) -> int:
    """Check everything that is for sale. Returns 1 if something cannot be sold, or a price is on no route.

    Predictable payment instructions and a journal in memory are reported, but are no error here. `seller` is
    the routes of an application; or a URL, where it is checked from outside whether it can be listed.
    """
    as_json = prints_json(json, text)
    if isinstance(seller, str):
        return _run_outside_check(seller, echo, as_json)
    table = seller
    offers, faults = table.offers, [*check(table), *describe_unsold()]
    notes = [*describe_journals(table), *describe_instructions(table)]
    if not offers:
        faults.append("Nothing is for sale in this application.")
    if as_json:
        sells = [offer.sells for offer in offers]
        echo(jsonlib.dumps({"sells": sells, "faults": faults, "notes": notes}, indent=2))
    else:
        echo("\n".join((*(faults or [f"All is well: {count(len(offers), 'offer')} can be sold."]), *notes)))
    return 1 if faults else 0


def _run_outside_check(url: str, echo: Echo, as_json: bool) -> int:
    report = check_url(url)
    sold, faults, notes = report.sold, report.faults, report.notes
    if as_json:
        echo(jsonlib.dumps({"sells": sold, "faults": faults, "notes": notes}, indent=2))
    else:
        well = f"All is well: {count(len(sold), 'request')} can be listed."
        echo("\n".join((*(faults or [well]), *notes)))
    return 1 if faults else 0
