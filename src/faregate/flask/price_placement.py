"""Where the prices of an app's views stand: what is sold, and the mistakes that can be seen there.

A mistake would give something away, or charge for nothing. It is an error with the first request that meets
it, and reported by `flask faregate routes` and `flask faregate check`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import isclass
from itertools import takewhile
from types import FunctionType
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from flask import Flask
from flask.views import View as ClassView
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import MapAdapter, RequestRedirect, Rule
from werkzeug.test import create_environ

from faregate.checkout.handlers import OFFER, find_offers, is_price
from faregate.checkout.path_rules import list_spellings
from faregate.checkout.whitenoise import list_urls
from faregate.checkout.wrapped_callables import get_closure, get_module, walk
from faregate.checkout.wsgi_environ import find_method
from faregate.core.models import Offer
from faregate.core.withholding import Bypass, may_be_result
from faregate.flask.caches import find_keys, is_cached_above
from faregate.flask.middleware import NAME, FlaskPaywallMiddleware
from faregate.routes.shadows import Parameter, build_samples, describe_shadows
from faregate.wsgi import Environ

View = Callable[..., Any]

EXEMPT = "faregate_exempt"
_SOLD = "faregate_sold"
"""Marks a function that stands below its price: the router must not run it without the price."""

_MAX_KEPT = 10_000
"""How many placements an app remembers."""
_MAX_FOLLOWED = 3
"""How many redirects of the router are followed: one adds a slash, another leads from an old path."""


@dataclass(frozen=True)
class Placement:
    """The offers of a rule of the app for one method, and the mistakes in where they are declared.

    `is_exempt`: its view is left out of the offer of its blueprint or app.
    """

    offers: tuple[Offer, ...] = ()
    mistakes: tuple[str, ...] = ()
    is_exempt: bool = False


def inspect_rule(app: Flask, rule: Rule, method: str) -> Placement:
    """Find what the view of a rule sells, and its blueprints."""
    view = app.view_functions.get(rule.endpoint)
    parts = () if view is None else _find_parts(view, method)
    is_exempt, groups = _find_groups(app, rule, parts)
    offers = _find_offers(app, rule, parts)
    mistakes = [_CACHE.format(name=_name(view))] if parts and is_cached_above(parts) else []
    if offers and not mistakes and (keys := find_keys(parts, app.config)):
        shared = dict.fromkeys(_find_shared(app, rule, method, keys, offers))
        mistakes.extend(_SHARED_CACHE.format(name=_name(view), other=other) for other in shared)
    if _is_price_bypassed(view) or (not offers and not is_exempt and _is_class_bypassed(app, view)):
        mistakes.insert(0, _PRICE_BYPASSED.format(endpoint=rule.endpoint))
    if groups and (login_mistake := find_login(view)) is not None:
        mistakes.append(login_mistake)
    if _is_head_unpriced(view):
        mistakes.append(_HEAD.format(name=_name(view)))
    return Placement(offers, tuple(mistakes), is_exempt)


def _find_groups(app: Flask, rule: Rule, parts: tuple[Any, ...]) -> tuple[bool, list[Offer]]:
    """Whether a view is exempt; if it is not, the offers of its blueprints and its app."""
    is_exempt = any(hasattr(part, EXEMPT) for part in parts)
    return is_exempt, [sold for name, sold in list_sold_groups(app) if not is_exempt and is_in(rule, name)]


def _find_offers(app: Flask, rule: Rule, parts: tuple[Any, ...]) -> tuple[Offer, ...]:
    """What the parts of a view are sold as, and its groups."""
    return tuple(dict.fromkeys((*_list_priced(parts), *_find_groups(app, rule, parts)[1])))


def recall_rule(app: Flask, rule: Rule, method: str) -> Placement:
    """Return what `inspect_rule` returned first. Flask takes no more hooks after the first request."""
    view, middleware = app.view_functions.get(rule.endpoint), app.extensions[NAME]
    kept: dict[tuple[object, ...], Placement] = middleware.placements
    # A view may be replaced at any time, and what a view wraps may be given a price. A rule has no hash.
    key = (view, id(rule), method, hasattr(view, _SOLD))
    try:
        placement = kept.get(key)
    except TypeError:  # an object that cannot be remembered
        return inspect_rule(app, rule, method)
    if placement is None:
        placement = inspect_rule(app, rule, method)
        if len(kept) < _MAX_KEPT:  # of a rule without methods, strangers choose the method
            kept[key] = placement
    return placement


_CACHE = (
    "Flask-Caching stands above the price of {name!r}, and would give what one payer paid for to everybody: "
    "put @cache.cached below @paywall.paid."
)
_SHARED_CACHE = (
    "Flask-Caching below the price of {name!r} keeps what is sold under a key that {other!r} reads, too, "
    "which is not sold so: the key is the path, without method and host, or the same word. Give one of "
    "the two another key: @cache.cached(key_prefix='sold/%s')."
)
_PRICE_BYPASSED = (
    "The price of {endpoint!r} is not on what the router runs: "
    "put @app.route above @paywall.paid. A function that is sold cannot be given away as well."
)
_HEAD = (
    "{name!r} sells what its 'get' answers, and answers HEAD with it for free: put the price on the method, "
    "or name 'head' in method_decorators, too."
)
_LOGIN = (
    "A login stands below the price of {name!r}: a payer who is not logged in would pay for a redirect. "
    "Put @login_required above @paywall.paid, or authentication into a before_request."
)


def find_login(view: object) -> str | None:
    """A mistake: what is sold asks for a login that redirects."""
    has_login = any(get_module(part) == "flask_login.utils" for part in walk(view))
    return _LOGIN.format(name=_name(view)) if has_login else None


def _is_price_bypassed(view: View | None) -> bool:
    """Whether the router runs this function without the price that was put on it."""
    return hasattr(view, _SOLD) and not find_offers(view)


def _is_class_bypassed(app: Flask, view: View | None) -> bool:
    """Whether another rule sells the class of this view: each call of `as_view` makes a new function."""
    if not hasattr(view, "view_class"):
        return False
    made = list(_list_made(view))
    functions = (function for other in app.view_functions.values() for function in walk(other))
    prices = filter(is_price, functions)
    return any(inner in made for price in prices for inner in _list_made(getattr(price, "__wrapped__", None)))


def _list_made(view: object) -> Iterator[object]:
    """List the classes that `as_view` made a view of, each with what its objects are made with."""
    for function in walk(view):
        closure = get_closure(function)
        if "class_args" in closure:
            yield getattr(function, "view_class", None), closure["class_args"], closure.get("class_kwargs")


def mark_sold(view: View) -> None:
    """Mark a function that is given a price, with all that it wraps: no route may run one of them."""
    for part in walk(view):
        if isinstance(part, FunctionType) and not is_price(part):
            part.__dict__[_SOLD] = True


def _find_parts(view: View, method: str) -> tuple[Any, ...]:
    """The view; of a class-based one also what it calls for a method."""
    kind = getattr(view, "view_class", None)
    if not (isclass(kind) and issubclass(kind, ClassView)):
        return (view,)
    called = getattr(kind, method.lower(), None)
    # Flask's MethodView answers HEAD with `get`.
    if called is None and method == "HEAD":
        called = getattr(kind, "get", None)
    return (view, kind.dispatch_request, called, *_list_method_decorators(kind, method))


def _list_method_decorators(kind: type, method: str) -> Sequence[Any]:
    """List what Flask-RESTful and Flask-RESTX put on a method of a class with each request, the price too."""
    decorators: Any = getattr(kind, "method_decorators", ())
    if isinstance(decorators, Mapping):
        decorators = cast(Mapping[str, Any], decorators).get(method.lower(), ())
    return cast(Sequence[Any], decorators) if isinstance(decorators, list | tuple) else ()


def _find_shared(
    app: Flask, rule: Rule, method: str, keys: frozenset[str], offers: tuple[Offer, ...]
) -> Iterator[str]:
    """Find the endpoints that read what a cache below the price of a rule keeps, and are sold differently."""
    for other in app.url_map.iter_rules():
        for asked in other.methods or ("GET", "POST"):
            if (other, asked) == (rule, method) or asked == "OPTIONS":
                continue
            view = app.view_functions.get(other.endpoint)
            parts = () if view is None else _find_parts(view, asked)
            shared = keys & find_keys(parts, app.config)
            if not shared or _find_offers(app, other, parts) == offers:
                continue
            by_path = all("%s" in key for key in shared)
            if not by_path or _has_path_of(app, rule, other, asked) or _has_path_of(app, other, rule, method):
                yield other.endpoint


def _has_path_of(app: Flask, rule: Rule, other: Rule, method: str) -> bool:
    """Whether a path of one rule leads to another, on the other's own host and with its own method."""
    paths = [address.partition("|")[2] for address in _build_addresses(rule)]
    for domain in _build_domains(other):
        for path in paths:
            with suppress(HTTPException):
                if _bind(app, domain, path, method).match(return_rule=True)[0] is other:
                    return True
    return False


def _is_head_unpriced(view: Any) -> bool:
    """Whether a class answers HEAD with its `get`, and `get` has a price by name that HEAD has not."""
    if not isinstance(getattr(getattr(view, "view_class", None), "method_decorators", None), Mapping):
        return False
    head, get = (_find_parts(view, method) for method in ("HEAD", "GET"))
    return head[:3] == get[:3] and set(_list_priced(head)) != set(_list_priced(get))


def _list_priced(parts: tuple[Any, ...]) -> Iterator[Offer]:
    return (offer for part in parts for offer in find_offers(part))


def _name(view: object) -> str:
    return str(getattr(view, "__name__", view))


# Offers of the app and its blueprints


def list_sold_groups(app: Flask) -> Iterator[tuple[str | None, Offer]]:
    """The blueprints that are sold as a whole; None is the app itself."""
    for name, hooks in app.before_request_funcs.items():
        for hook in hooks:
            if OFFER in getattr(hook, "__dict__", {}):
                yield name, hook.__dict__[OFFER]


def is_in(rule: Rule, group: str | None) -> bool:
    """Whether a rule belongs to a blueprint, or one nested in it."""
    return group is None or rule.endpoint.startswith(f"{group}.")


# Rules that another rule shadows


def list_shadow_mistakes(app: Flask) -> tuple[str, ...]:
    """Describe sold rules that are never reached. Looked for again when the app has other rules."""
    middleware: FlaskPaywallMiddleware = app.extensions[NAME]
    rule_count = count_rules(app)
    if middleware.shadow_mistakes is None or middleware.shadow_mistakes[0] != rule_count:
        middleware.shadow_mistakes = (rule_count, tuple(find_shadowed(app)))
    return middleware.shadow_mistakes[1]


def count_rules(app: Flask) -> int:
    # Counted in C: this is for each request, and `iter_rules` makes a list of all rules.
    url_map: Any = app.url_map
    return sum(map(len, url_map._rules_by_endpoint.values()))  # noqa: SLF001


def find_shadowed(app: Flask) -> Iterator[str]:
    """Describe the rules that sell something and for which another rule answers."""
    shadows: dict[tuple[str, str, str], list[str]] = {}
    for rule in app.url_map.iter_rules():
        if rule.build_only or rule.websocket:
            continue
        for method in sorted(rule.methods or ("GET", "POST")):
            # Flask answers OPTIONS itself.
            offers = inspect_rule(app, rule, method).offers
            is_sold = bool(offers) and method != "OPTIONS"
            other = _find_shadow(app, rule, method, offers) if is_sold else None
            if other is not None:
                place = f"{rule.host or ''}{rule.rule}"
                key = (place, offers[0].sells, f"{other.endpoint!r} ({other.rule})")
                shadows.setdefault(key, []).append(method)
    yield from describe_shadows(shadows)


def _find_shadow(app: Flask, rule: Rule, method: str, offers: tuple[Offer, ...]) -> Rule | None:
    """The other rule that the app's matcher finds for all addresses of this rule; None if there is none."""
    shadow = None
    for address in _build_addresses(rule):
        domain, _, path = address.partition("|")
        try:
            answering, _ = _bind(app, domain, path, method).match(return_rule=True)
        except HTTPException:
            continue  # a redirect to another address of the rule, or a value that its converter refuses
        except Exception:
            return None
        if answering is rule or inspect_rule(app, answering, method).offers == offers:
            return None
        shadow = shadow or answering
    return shadow


def _build_addresses(rule: Rule) -> list[str]:
    """Addresses that a rule matches: the subdomain or the host, a bar and the path."""
    parsed: Any = rule  # `Rule.build` takes values; the regex of a converter gives their text
    converters, parts = parsed._converters, parsed._trace  # noqa: SLF001
    return build_samples(
        [Parameter(converters[text].regex) if is_parameter else text for is_parameter, text in parts]
    )


def _build_domains(rule: Rule) -> list[str]:
    """Subdomains or hosts that a rule matches."""
    return [address.partition("|")[0] for address in _build_addresses(rule)]


# Code outside the paywall that would answer in its place


_WHITENOISE = "whitenoise.base.WhiteNoise"


def list_stack_mistakes(app: Flask) -> tuple[str, ...]:
    """Find code that answers outside the paywall where something is sold. Looked for once."""
    middleware: FlaskPaywallMiddleware = app.extensions[NAME]
    if middleware.stack_mistakes is None:
        middleware.stack_mistakes = tuple(_list_stack_mistakes(app, middleware))
    return middleware.stack_mistakes


def _list_stack_mistakes(app: Flask, middleware: FlaskPaywallMiddleware) -> Iterator[str]:
    for layer in takewhile(lambda layer: layer is not middleware, walk(app.wsgi_app)):
        bases: tuple[type, ...] = type(layer).__mro__
        kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in bases}
        urls = list_urls(layer) if _WHITENOISE in kinds else ()
        for url in urls:
            if middleware.path_rules.match(url).protected or find_sold(app, create_environ(url))[1]:
                yield (
                    f"WhiteNoise stands outside of the paywall and has a file at {url}, which is sold or "
                    "refused: the file is free. Take it away, or serve it by a view."
                )


def find_bypass(app: Flask, environ: Environ, status: int, rule: Rule | None = None) -> Bypass | None:
    """Find what answered with this status in place of a view that is sold; None if that may leave.

    `rule` is the one that Flask found for the request, if it did.
    """
    if rule is None:
        endpoint, offers = find_sold_near(app, environ, status)
    else:
        endpoint, offers = rule.endpoint, recall_rule(app, rule, find_method(environ)).offers
    if not offers or not may_be_result(status, offers):
        return None
    mistake = (
        f"{endpoint!r} was answered by something above its price, such as a cache, unpaid. "
        "What answers in place of a view belongs below @paywall.paid, unless it refuses, or redirects to a "
        "page of this app whose rule has no parameters, as to a login."
    )
    return Bypass(mistake, partial(_is_free_page, app, environ))


def find_sold_near(app: Flask, environ: Environ, status: int) -> tuple[str, tuple[Offer, ...]]:
    """`find_sold`, for a request for which the app itself found no rule and was answered with this status.

    Content there may be a copy of a result that a cache keeps: for this path with or without its slash, or
    for this path on another host. A redirect is no copy: routers redirect, and apps redirect to their host.
    """
    has_content = 200 <= status <= 299
    url_map = app.url_map
    adapters = [url_map.bind_to_environ(environ)]
    if has_content and (url_map.host_matching or app.subdomain_matching):
        path, method = adapters[0].path_info, find_method(environ)
        domains = {domain for rule in url_map.iter_rules() for domain in _build_domains(rule)}
        adapters.extend(_bind(app, domain, path, method) for domain in sorted(domains))
    for adapter in adapters:
        endpoint, offers = _find_sold(app, adapter, follows=has_content)
        if offers:
            return endpoint, offers
    return "", ()


def find_sold(app: Flask, environ: Environ) -> tuple[str, tuple[Offer, ...]]:
    """The endpoint that a request is for, and what it sells: nothing if there is none."""
    return _find_sold(app, app.url_map.bind_to_environ(environ), follows=False)


def _find_sold(app: Flask, adapter: MapAdapter, follows: bool) -> tuple[str, tuple[Offer, ...]]:
    """See `find_sold`. `follows`: where the router redirects to is looked at, too."""
    method = adapter.default_method.upper()
    for path in (None, *list_spellings(adapter.path_info)):
        try:
            rule = _match(adapter, path, method, follows)
        except NotFound:
            continue  # what answers all the same may be a copy of a result that a cache keeps for this path
        except MethodNotAllowed as error:
            # Or for another method.
            for other in error.valid_methods or ():
                rule = _match(adapter, path, other, follows)
                if offers := inspect_rule(app, rule, other).offers:
                    return rule.endpoint, offers
            return "", ()
        except HTTPException:
            return "", ()
        return rule.endpoint, inspect_rule(app, rule, method).offers
    return "", ()


def _match(adapter: MapAdapter, path: str | None, method: str, follows: bool) -> Rule:
    """Find the rule for a path. Raises `HTTPException`, also where redirects go round."""
    for _ in range(_MAX_FOLLOWED if follows else 0):
        try:
            return adapter.match(path, method, return_rule=True)[0]
        except RequestRedirect as redirect:
            path = unquote(urlsplit(redirect.new_url).path).removeprefix(adapter.script_name.rstrip("/"))
    return adapter.match(path, method, return_rule=True)[0]


def _bind(app: Flask, domain: str, path: str, method: str) -> MapAdapter:
    """The app's matcher for a host, or for a subdomain where no hosts are matched."""
    has_hosts = app.url_map.host_matching
    return app.url_map.bind(
        domain if has_hosts else "",
        subdomain=None if has_hosts else domain,
        path_info=path,
        default_method=method,
    )


def is_sold_without_options(app: Flask, environ: Environ, status: int, rule: Rule | None) -> bool:
    """Whether a path sells something, and no view of its own answers OPTIONS there.

    `rule` is the one that Flask found, if it did; `status` that of the answer.
    """
    if rule is None:
        return bool(find_sold_near(app, environ, status)[1])
    is_automatic = bool(getattr(rule, "provide_automatic_options", False))
    return is_automatic and any(recall_rule(app, rule, method).offers for method in rule.methods or ())


def _is_free_page(app: Flask, environ: Environ, path: str) -> bool:
    """See `Bypass.is_free_page`."""
    try:
        path = path.removeprefix(environ.get("SCRIPT_NAME", ""))
        rule, _ = app.url_map.bind_to_environ(environ).match(path, "GET", return_rule=True)
    except HTTPException:
        return False
    parameters: set[str] = cast(Any, rule).arguments
    return not (parameters or inspect_rule(app, rule, "GET").offers)
