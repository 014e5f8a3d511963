"""What a Flask app sells: its routes as `faregate.inventory` lists them."""

from collections.abc import Iterator
from dataclasses import replace

from flask import Flask
from werkzeug.routing import Rule

from faregate.errors import Misconfigured
from faregate.flask.door import NAME, Door
from faregate.flask.views import OFFER, is_bypassed, is_exempt, misplaced, offer_of
from faregate.inventory import Inventory, Listed
from faregate.inventory.taking import take_stock
from faregate.model import Offer


def inventory_of(app: Flask) -> Inventory:
    """Every route of the app as paid, free or refused. Raises `Misconfigured` for one without a paywall."""
    faults: list[str] = []
    rows = [row for rule in app.url_map.iter_rules() for row in _rows(app, rule, faults)]
    faults.extend(_empty_groups(app))
    return take_stock(rows, door_of(app).grounds, faults=faults)


def door_of(app: Flask) -> Door:
    """The paywall of the app. Raises `Misconfigured`."""
    door = app.extensions.get(NAME)
    if not isinstance(door, Door):
        raise Misconfigured("This Flask app has no paywall: Faregate(app), or paywall.init_app(app)")
    return door


def _rows(app: Flask, rule: Rule, faults: list[str]) -> Iterator[Listed]:
    """One row, or several where the methods of a class are sold differently."""
    if is_bypassed(app.view_functions.get(rule.endpoint)):
        faults.append(misplaced(rule.endpoint))
        yield _row(rule, _methods(rule), None, closed=True)
        return
    groups: dict[tuple[Offer, ...], list[str]] = {}
    for method in _methods(rule):
        groups.setdefault(_sold(app, rule, method), []).append(method)
    for offers, methods in groups.items():
        row = _row(rule, methods, offers[0] if offers else None, closed=len(offers) > 1)
        if len(offers) > 1:
            named = " and ".join(repr(one.sells) for one in offers)
            faults.append(f"{row.verbs} {row.place} sells {named}: nobody can buy it. Keep one offer.")
        yield row


def _row(rule: Rule, methods: list[str], sold: Offer | None, closed: bool) -> Listed:
    row = Listed(rule.rule, tuple(methods), rule.endpoint, sold, host=rule.host or "")
    return replace(row, standing="refused" if closed else "paid" if sold is not None else "free")


def _methods(rule: Rule) -> list[str]:
    """Without those that Flask adds: HEAD is sold as GET is, OPTIONS is answered by Flask."""
    methods = set(rule.methods or ())
    if "GET" in methods:
        methods.discard("HEAD")
    if getattr(rule, "provide_automatic_options", False):
        methods.discard("OPTIONS")
    return sorted(methods)


def _sold(app: Flask, rule: Rule, method: str) -> tuple[Offer, ...]:
    """What the view sells, and what its blueprints do."""
    view = app.view_functions.get(rule.endpoint)
    own = offer_of(view, method)
    groups = (
        () if is_exempt(view, method) else (sold for name, sold in _sold_groups(app) if _is_in(rule, name))
    )
    return tuple(dict.fromkeys((*(() if own is None else (own,)), *groups)))


def _sold_groups(app: Flask) -> Iterator[tuple[str | None, Offer]]:
    """The blueprints that are sold as a whole; None is the app itself."""
    for name, hooks in app.before_request_funcs.items():
        for hook in hooks:
            if OFFER in getattr(hook, "__dict__", {}):
                yield name, hook.__dict__[OFFER]


def _is_in(rule: Rule, group: str | None) -> bool:
    return group is None or rule.endpoint.startswith(f"{group}.")


def _empty_groups(app: Flask) -> Iterator[str]:
    rules = list(app.url_map.iter_rules())
    for name, sold in _sold_groups(app):
        if not any(_is_in(rule, name) for rule in rules):
            yield f"Blueprint {name!r} sells {sold.sells!r}, and has no route."
