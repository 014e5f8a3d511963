"""Format a route table for people and as JSON."""

import json
from collections.abc import Sequence

from faregate.routes import RouteTable


def as_table(inventory: RouteTable) -> str:
    """For people: the routes, their numbers, and what is wrong."""
    head = ("ACCESS", "METHODS", "PATH", "SELLS", "HANDLER")
    rows = [
        (route.access, route.verbs, route.place, route.sells or "-", route.handler)
        for route in inventory.routes
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [_line(row, widths) for row in (head, *rows)] if rows else ["This application has no routes."]
    problems = ("", *inventory.problems) if inventory.problems else ()
    return "\n".join((*lines, "", _counts(inventory), *problems))


def as_json(inventory: RouteTable) -> str:
    """For machines: `{"routes": [...], "unmatched": [...], "faults": [...]}`."""
    routes = [
        {
            "access": route.access,
            "methods": list(route.methods),
            "host": route.host or None,
            "path": route.path,
            "sells": route.sells or None,
            "handler": route.handler,
        }
        for route in inventory.routes
    ]
    faults = [*inventory.faults, *inventory.mistakes]
    told = {"routes": routes, "unmatched": list(inventory.unmatched), "faults": faults}
    return json.dumps(told, indent=2)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _counts(inventory: RouteTable) -> str:
    accesses = [route.access for route in inventory.routes]
    return ", ".join(f"{accesses.count(access)} {access}" for access in ("paid", "free", "refused"))
