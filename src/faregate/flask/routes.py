"""List the routes of a Flask app for `faregate.routes`."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from flask import Flask
from werkzeug.local import LocalProxy
from werkzeug.routing import Rule

from faregate.core.models import Offer
from faregate.errors import ConfigurationError
from faregate.flask.middleware import NAME, FlaskPaywallMiddleware
from faregate.flask.price_placement import (
    find_shadowed,
    inspect_rule,
    is_in,
    list_sold_groups,
    list_stack_mistakes,
)
from faregate.routes import RouteInfo, RouteTable
from faregate.routes.pricing import apply_path_rules, build_row, describe_several_offers


def list_routes(app: Flask) -> RouteTable:
    """List every route of the app as paid, free or refused.

    Raises `ConfigurationError` for one without a paywall.
    """
    if not isinstance(cast(Any, app), Flask | LocalProxy):
        raise ConfigurationError(f"list_routes takes a Flask app, not {type(app).__name__}.")
    faults: list[str] = []
    rows = [row for rule in app.url_map.iter_rules() for row in _rows(app, rule, faults)]
    middleware = get_middleware(app)
    faults.extend(_find_late_setting(middleware))
    faults.extend((*_empty_groups(app), *list_stack_mistakes(app), *find_shadowed(app)))
    table = RouteTable(tuple(rows), faults=tuple(faults))
    return apply_path_rules(table, middleware.path_rules, paywall=lambda: middleware.paywall)


def get_middleware(app: Flask) -> FlaskPaywallMiddleware:
    """The paywall of the app. Raises `ConfigurationError`."""
    middleware = app.extensions.get(NAME)
    if not isinstance(middleware, FlaskPaywallMiddleware):
        raise ConfigurationError("This Flask app has no paywall: call Faregate(app) or paywall.init_app(app)")
    return middleware


def _rows(app: Flask, rule: Rule, faults: list[str]) -> Iterator[RouteInfo]:
    """One row, or several where the methods of a class are sold differently."""
    methods = _methods(rule)
    placements = {method: inspect_rule(app, rule, method) for method in methods}
    if mistakes := dict.fromkeys(
        mistake for placement in placements.values() for mistake in placement.mistakes
    ):
        faults.extend(mistakes)
        yield replace(_build_row(rule, methods, ()), access="refused")
        return
    groups: dict[tuple[Offer, ...], list[str]] = {}
    for method, placement in placements.items():
        groups.setdefault(placement.offers, []).append(method)
    for offers, methods in groups.items():
        row = _build_row(rule, methods, offers)
        if len(offers) > 1:
            faults.append(describe_several_offers(row, offers))
        yield row


def _build_row(rule: Rule, methods: list[str], offers: tuple[Offer, ...]) -> RouteInfo:
    return build_row(rule.rule, methods, rule.endpoint, offers, rule.host or "")


def _methods(rule: Rule) -> list[str]:
    """Without those that Flask adds: HEAD is sold as GET is, OPTIONS is answered by Flask."""
    methods = set(rule.methods or ())
    if "GET" in methods:
        methods.discard("HEAD")
    if getattr(rule, "provide_automatic_options", False):
        methods.discard("OPTIONS")
    return sorted(methods)


def _empty_groups(app: Flask) -> Iterator[str]:
    rules = list(app.url_map.iter_rules())
    for name, sold in list_sold_groups(app):
        if not any(is_in(rule, name) for rule in rules):
            yield f"Blueprint {name!r} sells {sold.sells!r}, and has no route."


def _find_late_setting(middleware: FlaskPaywallMiddleware) -> Iterator[str]:
    try:
        if middleware.prepare is not None:
            middleware.prepare()
    except ConfigurationError as mistake:
        yield str(mistake)
