"""List the routes of a Django project for `faregate.routes`."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.urls import URLResolver, get_resolver

from faregate.core.models import Offer
from faregate.django.caches import find_caches_outside, list_cache_mistakes, list_prefix_cache_mistakes
from faregate.django.conf import get_config
from faregate.django.middleware_mistakes import list_stack_mistakes
from faregate.django.offers import list_handlers, list_offers, list_shared_offers
from faregate.django.price_placement import (
    METHODS,
    find_given_away,
    inspect_view,
    list_prefix_mistakes,
    list_shadow_mistakes,
    list_transaction_mistakes,
    name_view,
    walk_patterns,
)
from faregate.routes import RouteInfo, RouteTable
from faregate.routes.pricing import apply_path_rules, build_row


def list_routes() -> RouteTable:
    """List every route of the project as paid, free or refused. Raises `ConfigurationError`."""
    config = get_config()
    resolver = get_resolver()
    rows = list(_walk(resolver, "/", find_given_away(resolver, config.path_rules)))
    two = (_two_offers(row) for row in rows if row.access == "refused" and row.offer is not None)
    stack = (f"{mistake.message} {mistake.hint}" for mistake in list_stack_mistakes(config.path_rules))
    faults = tuple(dict.fromkeys((*two, *list_route_mistakes(), *stack)))
    table = RouteTable(tuple(rows), faults=faults)
    return apply_path_rules(table, config.path_rules, paywall=lambda: config.paywall)


def _walk(resolver: Any, above: str, given_away: Mapping[int, str]) -> Iterator[RouteInfo]:
    for pattern in resolver.url_patterns:
        path = above + str(pattern.pattern).removeprefix("^")
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern, path, given_away)
            continue
        path = path.removesuffix("$").removesuffix("\\Z")
        if id(pattern.callback) in given_away or any(_list_mistakes(pattern.callback)):
            yield RouteInfo(path, (), name_view(pattern.callback), None, "refused")
        else:
            yield from _list_rows(pattern.callback, path)


def _list_rows(view: Any, path: str) -> Iterator[RouteInfo]:
    """One row for a view, or several where its methods are sold differently."""
    name, shared = name_view(view), list_shared_offers(view)
    methods = tuple(list_handlers(view, METHODS))
    if shared or not methods:
        all_offers = (*shared, *(offer for method in methods for offer in list_offers(view, method)))
        yield build_row(path, (), name, tuple(dict.fromkeys(all_offers)))
        return
    groups: dict[tuple[Offer, ...], list[str]] = {}
    for method in methods:
        groups.setdefault(list_offers(view, method), []).append(method)
    if not any(groups):
        yield RouteInfo(path, (), name)
        return
    for offers, group in groups.items():
        yield build_row(path, sorted(group), name, offers)


def _two_offers(row: RouteInfo) -> str:
    return (
        f"{row.path} sells {row.sells!r}, and a method of it something else: no payer can buy that. "
        "Put one offer on the class or on its methods."
    )


def list_route_mistakes() -> Iterator[str]:
    """Describe what is wrong with the prices of the routed views."""
    resolver, rules = get_resolver(), get_config().path_rules
    yield from find_given_away(resolver, rules).values()
    yield from list_shadow_mistakes(resolver)
    yield from list_prefix_mistakes(resolver, rules)
    for pattern in walk_patterns(resolver):
        yield from _list_mistakes(pattern.callback)
    yield from list_prefix_cache_mistakes(resolver, rules)


def _list_mistakes(view: Any) -> Iterator[str]:
    yield from list_cache_mistakes(view, find_caches_outside())
    for method in list_handlers(view, METHODS) or ("GET",):
        yield from inspect_view(view, method).mistakes
        yield from list_transaction_mistakes(view, method)
