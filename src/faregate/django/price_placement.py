"""Mistakes in where the price of a view stands, which would give it away or charge for nothing.

They are errors on the first request that meets them, and are reported by `manage.py check`, `faregate_routes`
and `faregate_check`.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.db.transaction import Atomic
from django.urls import URLPattern, URLResolver
from django.urls.resolvers import RegexPattern, RoutePattern
from django.utils.functional import Promise
from django.utils.regex_helper import normalize
from django.utils.translation import override
from django.views import View

from faregate.checkout.handlers import find_offers, is_price
from faregate.checkout.path_rules import PathRules
from faregate.checkout.wrapped_callables import get_closure, get_module, walk, walk_chain
from faregate.core.models import Offer
from faregate.django.decorators import LOGIN_BELOW, has_login
from faregate.django.offers import (
    find_early_offer,
    get_view_class,
    is_atomic_in,
    list_handlers,
    list_offers,
    list_shared_offers,
)
from faregate.django.options import find_journal_database
from faregate.routes.shadows import Parameter, Part, build_samples, describe_shadows

_METHOD_NAMES = frozenset(
    (*View.http_method_names, "dispatch", "list", "create", "retrieve", "partial_update", "update", "destroy")
)
"""Methods of a class that answer requests; REST framework's are among them."""
METHODS = tuple(name.upper() for name in View.http_method_names if name != "options")


@dataclass(frozen=True)
class Placement:
    """The offers of a view for one method, and the mistakes in where they are declared."""

    offers: tuple[Offer, ...] = ()
    mistakes: tuple[str, ...] = ()


_inspected: "WeakKeyDictionary[Any, dict[str, Placement]]" = WeakKeyDictionary()


def inspect_view(view: Any, method: str) -> Placement:
    """Find what a view sells to requests with this method. A view is looked at once."""
    try:
        placements = _inspected.setdefault(view, {})
    except TypeError:  # an object that cannot be remembered
        placements = {}
    if method not in placements:
        mistakes = dict.fromkeys((*_find_misplaced_methods(view), *_find_logins_below(view, method)))
        placements[method] = Placement(list_offers(view, method), tuple(mistakes))
    return placements[method]


def list_transaction_mistakes(view: Any, method: str) -> Iterator[str]:
    """Describe why a payment would be written inside a transaction of the journal's database."""
    using = find_journal_database()
    if using is None or not list_offers(view, method) or find_early_offer(view, method) is not None:
        return
    if is_atomic_in(using, view):
        yield (
            f"{name_view(view)} cannot be sold: its payment would be written inside the transaction that "
            "ATOMIC_REQUESTS puts around it. Put @paid above all other decorators, or mark the view with "
            "transaction.non_atomic_requests."
        )
    elif any(_is_atomic_above(layer, using) for layer in walk(view)):
        yield f"{name_view(view)} cannot be sold inside a transaction: put @paid above transaction.atomic."


def list_async_mistakes(resolver: URLResolver) -> Iterator[str]:
    """Describe async views, sold or not, that would run where gevent has replaced the threads.

    Python then has one running loop for all requests of the process: as long as a view awaits, Django
    refuses its database to every other request, also for a payment that is settled.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return
    for pattern in walk_patterns(resolver):
        # Python's own knows of marked functions only from 3.12 on.
        if iscoroutinefunction(pattern.callback):  # pyright: ignore[reportDeprecated]
            yield (
                f"{name_view(pattern.callback)} is async, and gevent runs this process: while it awaits, "
                "Django refuses its database to all other requests. Make it a plain function, or serve the "
                "project with threads (gunicorn -k gthread) or under ASGI."
            )


def find_given_away(resolver: URLResolver, rules: PathRules) -> dict[int, str]:
    """The free views that are sold on another route, by `id`, with the mistake. Looked for once."""
    cached = _given_away.get(resolver)
    if cached is None or cached[0] is not rules:
        cached = _given_away[resolver] = (rules, dict(_find_given_away(resolver, rules)))
    return cached[1]


def list_shadow_mistakes(resolver: URLResolver) -> tuple[str, ...]:
    """Describe sold views that are never reached. Looked for once."""
    mistakes = _shadowed.get(resolver)
    if mistakes is None:
        mistakes = _shadowed[resolver] = tuple(find_shadowed(resolver))
    return mistakes


def list_prefix_mistakes(resolver: URLResolver, rules: PathRules) -> tuple[str, ...]:
    """Describe views that a prefix sells or refuses, and that other paths reach. Looked for once."""
    cached = _reached_outside.get(resolver)
    if cached is None or cached[0] is not rules:
        mistakes = (
            ()
            if rules.is_empty
            else (
                *_find_reached_outside(resolver, rules),
                *_find_translated_outside(resolver, rules),
            )
        )
        cached = _reached_outside[resolver] = (rules, mistakes)
    return cached[1]


def list_sample_paths(resolver: URLResolver) -> Iterator[tuple[URLPattern, list[str]]]:
    """List every route below a resolver, with sample paths for it."""
    for _, pattern, forms in _walk_parts(resolver, "", [[""]]):
        yield pattern, [path for form in forms for path in build_samples(form)]


def name_view(view: Any) -> str:
    """Where a person finds a view."""
    named = get_view_class(view) or view
    return f"{named.__module__}.{getattr(named, '__qualname__', type(named).__name__)}"


# The ids of views are safe: the resolver holds its views, and the entry ends with the resolver.
_given_away: "WeakKeyDictionary[URLResolver, tuple[PathRules, dict[int, str]]]" = WeakKeyDictionary()

_shadowed: "WeakKeyDictionary[URLResolver, tuple[str, ...]]" = WeakKeyDictionary()

_reached_outside: "WeakKeyDictionary[URLResolver, tuple[PathRules, tuple[str, ...]]]" = WeakKeyDictionary()


def _find_misplaced_methods(view: Any) -> Iterator[str]:
    """Find a price on what a class does before or after it answers."""
    bases: tuple[type, ...] = getattr(get_view_class(view), "__mro__", ())
    for name, member in (item for base in bases for item in vars(base).items()):
        # REST framework's `@action` gives a method that answers requests a `mapping`.
        if name in _METHOD_NAMES or not isinstance(member, FunctionType) or hasattr(member, "mapping"):
            continue
        if find_offers(member):
            yield (
                f"The price of {name_view(view)} is on its method {name!r}, which answers nothing: put it on "
                "dispatch, or on get, post and the others."
            )


def _find_logins_below(view: Any, method: str) -> Iterator[str]:
    """Find a login that runs after the payment: on the view, its class, or the method that answers."""
    kind, handlers = get_view_class(view), list_handlers(view, (method,)).get(method, ())
    dispatch = getattr(kind, "dispatch", None)
    is_below = any(_is_login_below(layer) for part in (view, dispatch, *handlers) for layer in walk(part))
    is_around = bool(find_offers(view)) and kind is not None and any(map(_is_login_mixin, kind.__mro__))
    is_dispatched = bool(find_offers(view) or find_offers(dispatch)) and any(map(has_login, handlers))
    if is_below or is_around or is_dispatched or _has_mixin_below(kind):
        yield LOGIN_BELOW.format(name=name_view(view))


def _is_login_below(part: Any) -> bool:
    if is_price(part):
        return has_login(getattr(part, "__wrapped__", None))
    return get_module(part) == "django.utils.decorators" and _is_login_in(get_closure(part))


def _is_login_in(closure: dict[str, Any]) -> bool:
    """Of a `method_decorator`: whether it applies a login before a price, or what it decorates has one."""
    decorators: list[Any] = list(closure.get("decorators") or ())
    prices = [place for place, decorator in enumerate(decorators) if find_offers(decorator)]
    below = [*decorators[: prices[-1]], closure.get("method")] if prices else []
    return any(has_login(part) for part in below)


def _has_mixin_below(kind: Any) -> bool:
    """Whether a class dispatches through a price to a mixin that redirects to a login."""
    is_priced = False
    bases: tuple[type, ...] = () if kind is None else kind.__mro__
    for base in bases:
        is_priced = is_priced or bool(find_offers(vars(base).get("dispatch")))
        if is_priced and _is_login_mixin(base):
            return True
    return False


def _is_login_mixin(base: type) -> bool:
    return base.__module__ == "django.contrib.auth.mixins" and "dispatch" in vars(base)


def _is_atomic_above(decorator: Any, using: str) -> bool:
    closure = get_closure(decorator)
    transaction = closure.get("self")
    if not isinstance(transaction, Atomic) or (transaction.using or "default") != using:
        return False
    return bool(find_offers(closure.get("func")))


def _find_given_away(resolver: URLResolver, rules: PathRules) -> Iterator[tuple[int, str]]:
    """By identity and by the arguments of the route: one function may serve two folders, and sell one."""
    patterns = list(walk_patterns(resolver))
    sold = {
        (_identify(inner), _freeze(pattern.default_args))
        for pattern in patterns
        for layer in walk(pattern.callback)
        if is_price(layer)
        for inner in walk(getattr(layer, "__wrapped__", None))
    }
    for pattern, paths in list_sample_paths(resolver):
        if paths and _are_protected(paths, rules):
            continue  # sold or refused by its path
        arguments = _freeze(pattern.default_args)
        if any((_identify(function), arguments) in sold for function in walk_chain(pattern.callback)):
            if list_shared_offers(pattern.callback):
                continue
            yield (
                id(pattern.callback),
                (
                    f"{name_view(pattern.callback)} is sold on one route and free on another. Put @paid on "
                    "its definition, or route two functions."
                ),
            )


def _identify(view: Any) -> object:
    """Give what tells a view from others: a class makes another function with each `as_view`."""
    kind: object = getattr(view, "view_class", None) or getattr(view, "cls", None)
    if not isinstance(kind, type):
        return id(view)
    initkwargs: dict[str, Any] = (
        getattr(view, "view_initkwargs", None) or getattr(view, "initkwargs", None) or {}
    )
    return kind, _freeze(initkwargs), _freeze(getattr(view, "actions", None) or {})


def _freeze(given: Mapping[str, Any]) -> frozenset[tuple[str, object]]:
    """To be compared: plain values as they are, others by identity."""
    plain = (str, int, PurePath)
    return frozenset(
        (name, value if isinstance(value, plain) else id(value)) for name, value in given.items()
    )


# Paid views that are never reached

_PARAMETER = re.compile(r"<(?:([^>:]+):)?([^>]+)>")
_FLAGS = re.compile(r"^\(\?[aimsu]+\)")
"""What a regular expression may begin with, as `(?i)`: it changes no path that the rest of it is made for."""


def find_shadowed(resolver: URLResolver) -> Iterator[str]:
    """Describe sold views for which an earlier pattern answers."""
    shadows: dict[tuple[str, str, str], list[str]] = {}
    for path, pattern, parts in _walk_parts(resolver, "", [[""]]):
        for method in list_handlers(pattern.callback, METHODS) or ("GET",):
            offers = list_offers(pattern.callback, method)
            other = _find_shadow(resolver, pattern, parts, method) if offers else None
            if other is not None:
                key = (path, offers[0].sells, f"{name_view(other.callback)} ({other.pattern})")
                shadows.setdefault(key, []).append(method)
    yield from describe_shadows(shadows)


def _find_shadow(
    resolver: URLResolver, pattern: URLPattern, forms: list[list[Part]], method: str
) -> URLPattern | None:
    """What answers for all paths of a pattern in its place."""
    offers, shadow = list_offers(pattern.callback, method), None
    for path in (path for form in forms for path in build_samples(form)):
        try:
            matches = list(_list_matches(resolver, path))
        except Exception:
            return None
        if pattern not in matches:
            continue  # Django makes no path of every regular expression
        if matches[0] is pattern or list_offers(matches[0].callback, method) == offers:
            return None
        shadow = shadow or matches[0]
    return shadow


def _list_matches(resolver: Any, path: str) -> Iterator[URLPattern]:
    """The patterns that match a path, in the order in which Django asks them."""
    matched = resolver.pattern.match(path)
    for pattern in resolver.url_patterns if matched else ():
        if isinstance(pattern, URLResolver):
            yield from _list_matches(pattern, matched[0])
        elif pattern.pattern.match(matched[0]):
            yield pattern


def _walk_parts(
    resolver: Any, above: str, forms: list[list[Part]]
) -> Iterator[tuple[str, URLPattern, list[list[Part]]]]:
    """Every route below a resolver: its path, and the forms that paths for it have."""
    path = above + str(resolver.pattern)
    forms = [[*form, *more] for form in forms for more in _list_forms(resolver.pattern, is_end=False)]
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from _walk_parts(pattern, path, forms)
        else:
            ends = _list_forms(pattern.pattern, is_end=True)
            yield path + str(pattern.pattern), pattern, [[*form, *end] for form in forms for end in ends]


def _list_forms(pattern: Any, *, is_end: bool) -> list[list[Part]]:
    if isinstance(pattern, RoutePattern):
        return [_split_route(str(pattern), pattern.converters)]
    if not isinstance(pattern, RegexPattern):
        return [[getattr(pattern, "language_prefix", "")]]
    try:
        forms = [_split_form(form) for form, _ in normalize(_FLAGS.sub("", pattern.regex.pattern))]
    except ValueError:  # as of `(?i:...)` and `(?>...)`: Django makes no path of them, and matches them
        return []
    # A regular expression without an end matches longer paths, too.
    longer = [[*form, Parameter(".+")] for form in forms] if is_end else []
    return [*forms, *longer]


def _split_route(route: str, converters: Mapping[str, Any]) -> list[Part]:
    texts = _PARAMETER.split(route)
    parameters = [Parameter(converters[name].regex) for name in texts[2::3]]
    return [*chain.from_iterable(zip(texts[::3], parameters, strict=False)), texts[-1]]


def _split_form(form: str) -> list[Part]:
    """Of what Django makes of a regular expression, `reports/%(day)s`: a group may have any value."""
    texts = re.split(r"%\(\w+\)s", form)
    return [texts[0], *(part for text in texts[1:] for part in (Parameter(".*"), text))]


def _find_reached_outside(resolver: URLResolver, rules: PathRules) -> Iterator[str]:
    """Try sample paths below a prefix with more text around their segments, which an expression may skip."""
    for _, pattern, forms in _walk_parts(resolver, "", [[""]]):
        # Where some paths of a form are below a prefix, and some are not, its pattern is meant for both.
        samples = [paths for form in forms if (paths := build_samples(form))]
        path = next((paths[0] for paths in samples if _are_protected(paths, rules)), None)
        if path is None or list_offers(pattern.callback, "GET"):
            continue
        edges = [edge.start() for edge in _EDGES.finditer(path)]
        for other in (f"{path[:edge]}{more}{path[edge:]}" for edge in edges for more in _MORE):
            if not rules.match(other).protected and next(_list_matches(resolver, other), None) is pattern:
                yield _REACHED_OUTSIDE.format(name_view(pattern.callback), path, other, str(pattern.pattern))
                break


_EDGES = re.compile(r"(?<=/)|(?!^)(?=/)|$")
"""Where a segment of a path begins or ends."""
_MORE = ("0/", "0", "a/", "a")
_REACHED_OUTSIDE = (
    "{} is sold or refused at {}, and free at {}: its pattern {!r}, or one that includes it, matches both. "
    "Begin the regular expression with ^ and end the prefix in it with / or $, or put @paid on the view."
)


def _find_translated_outside(resolver: URLResolver, rules: PathRules) -> Iterator[str]:
    """Compare the paths of each view in all languages, where patterns are translated."""
    if not (settings.USE_I18N and _has_translated_pattern(resolver)):
        return
    protected: dict[URLPattern, str] = {}
    free: dict[URLPattern, tuple[str, str]] = {}
    for language, _ in settings.LANGUAGES:
        with override(language):
            for _, pattern, forms in _walk_parts(resolver, "", [[""]]):
                samples = [paths for form in forms if (paths := build_samples(form))]
                path = next((paths[0] for paths in samples if _are_protected(paths, rules)), None)
                if path is not None:
                    protected.setdefault(pattern, path)
                elif samples:
                    free.setdefault(pattern, (samples[0][0], language))
    for pattern in protected.keys() & free.keys():
        if not list_offers(pattern.callback, "GET"):
            other, language = free[pattern]
            yield _TRANSLATED_OUTSIDE.format(name_view(pattern.callback), protected[pattern], other, language)


def _has_translated_pattern(resolver: Any) -> bool:
    own = resolver.pattern
    if isinstance(getattr(own, "_route", getattr(own, "_regex", "")), Promise):
        return True
    return any(_has_translated_pattern(pattern) for pattern in getattr(resolver, "url_patterns", ()))


_TRANSLATED_OUTSIDE = (
    "{} is sold or refused at {}, and free at {} in the language {!r}: declare that prefix as well, or put "
    "@paid on the view."
)


def _are_protected(paths: list[str], rules: PathRules) -> bool:
    return all(rules.match(path).protected for path in paths)


def walk_patterns(resolver: Any) -> Iterator[URLPattern]:
    """Every route below a resolver."""
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from walk_patterns(pattern)
        else:
            yield pattern
