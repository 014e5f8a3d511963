"""What a Flask app sells: its routes as `faregate.inventory` lists them."""

from collections.abc import Iterator

from flask import Flask
from werkzeug.routing import Rule

from faregate.errors import Misconfigured
from faregate.flask.door import NAME, Door
from faregate.flask.views import OFFER, is_bypassed, is_exempt, offer_of
from faregate.inventory import Inventory, Listed, take_stock
from faregate.model import Offer


def inventory_of(app: Flask) -> Inventory:
    """Every route of the app as paid, free or refused. Raises `Misconfigured` for one without a paywall."""
    rules = list(app.url_map.iter_rules())
    listed = [row for rule in rules for row in _rows(app, rule)]
    lone = [
        f"blueprint {name}" for name in _sold_groups(app) if not any(_is_in(rule, name) for rule in rules)
    ]
    return take_stock(listed, door_of(app).grounds, (*lone, *_bypassed(app)))


def door_of(app: Flask) -> Door:
    door = app.extensions.get(NAME)
    if not isinstance(door, Door):
        raise Misconfigured("This Flask app has no paywall: Faregate(app), or paywall.init_app(app)")
    return door


def _rows(app: Flask, rule: Rule) -> Iterator[Listed]:
    """One row, or several where methods of a class are sold differently."""
    methods: dict[Offer | None, list[str]] = {}
    for method in _methods(rule):
        methods.setdefault(_sold(app, rule, method), []).append(method)
    for sold, names in methods.items():
        yield Listed(rule.rule, tuple(names), rule.endpoint, sold)


def _methods(rule: Rule) -> list[str]:
    """Without those that Flask adds: HEAD is sold as GET is, OPTIONS is answered by Flask."""
    methods = set(rule.methods or ())
    if "GET" in methods:
        methods.discard("HEAD")
    if getattr(rule, "provide_automatic_options", False):
        methods.discard("OPTIONS")
    return sorted(methods)


def _sold(app: Flask, rule: Rule, method: str) -> Offer | None:
    view = app.view_functions.get(rule.endpoint)
    own = offer_of(view, method)
    if own is not None or is_exempt(view, method):
        return own
    return next((sold for name, sold in _sold_groups(app).items() if _is_in(rule, name)), None)


def _sold_groups(app: Flask) -> dict[str | None, Offer]:
    """The blueprints that are sold as a whole; None is the app itself."""
    return {
        name: hook.__dict__[OFFER]
        for name, hooks in app.before_request_funcs.items()
        for hook in hooks
        if OFFER in getattr(hook, "__dict__", {})
    }


def _is_in(rule: Rule, group: str | None) -> bool:
    return group is None or rule.endpoint.startswith(f"{group}.")


def _bypassed(app: Flask) -> list[str]:
    return [
        f"the price of {name} (put @app.route above @paywall.require)"
        for name, view in app.view_functions.items()
        if is_bypassed(view)
    ]
