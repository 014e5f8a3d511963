"""Find page caches of Django's own that keep what is sold for a cache in front of the paywall.

`cache_page` and the site-wide cache share their keys: what `cache_page` stores below a price,
`FetchFromCacheMiddleware` in front of the paywall answers with, also to those who have not paid.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.cache import UpdateCacheMiddleware
from django.urls import URLResolver
from django.utils.module_loading import import_string

from faregate.checkout.handlers import find_offers, is_price
from faregate.checkout.path_rules import PathRules
from faregate.checkout.wrapped_callables import get_closure, get_module, walk
from faregate.django.middleware_mistakes import list_kinds, list_outside
from faregate.django.offers import get_view_class, list_handlers, list_offers
from faregate.django.price_placement import list_sample_paths, name_view

_FETCH = "django.middleware.cache.FetchFromCacheMiddleware"
_METHODS = ("GET", "HEAD")
"""The methods whose answers Django's cache stores."""


@dataclass(frozen=True)
class CacheKeys:
    """What two page caches have in common if one finds what the other has stored."""

    prefix: str
    place: tuple[object, ...]


CachesOutside = Mapping[CacheKeys, str]
"""The caches in front of the paywall that answer, with their names in `MIDDLEWARE`."""


def find_caches_outside() -> CachesOutside:
    """Find the caches in front of the paywall that answer."""
    return {
        _read_keys(import_string(name)(_answer_nothing)): name
        for name in list_outside()
        if _FETCH in list_kinds(name)
    }


def list_cache_mistakes(view: Any, outside: CachesOutside, *, is_path_sold: bool = False) -> Iterator[str]:
    """Describe the caches below the price of a view that store for a cache in front of the paywall.

    With `is_path_sold`, its price is on the path: all of its caches are below.
    """
    for method in _METHODS if outside else ():
        if not is_path_sold and not list_offers(view, method):
            continue
        parts = _list_all(view, method) if is_path_sold else _list_below(view, method)
        for cache in _find_caches(parts):
            if (name := outside.get(_read_keys(cache))) is not None:
                yield (
                    f"{name_view(view)} is stored by Django's cache below its price, and {name!r} comes "
                    "before the paywall and answers with what is stored, for free. Give the cache "
                    "below a key_prefix of its own: cache_page(60, key_prefix='paid')."
                )
                return


def list_prefix_cache_mistakes(resolver: URLResolver, rules: PathRules) -> Iterator[str]:
    """Describe the routed views below a paid prefix that store for a cache in front of the paywall.

    A view that only some values of a parameter bring below a prefix is looked at when it is asked for.
    """
    if not rules.offers or not (outside := find_caches_outside()):
        return
    for pattern, paths in list_sample_paths(resolver):
        if any(rules.match(path).offer is not None for path in paths):
            yield from list_cache_mistakes(pattern.callback, outside, is_path_sold=True)


def _read_keys(middleware: Any) -> CacheKeys:
    options = cast("dict[str, Any]", settings.CACHES[middleware.cache_alias])
    place = tuple(str(options.get(name, "")) for name in ("BACKEND", "LOCATION", "KEY_PREFIX", "VERSION"))
    return CacheKeys(middleware.key_prefix, place)


def _find_caches(parts: Iterator[Any]) -> Iterator[UpdateCacheMiddleware]:
    for part in parts:
        if isinstance(part, UpdateCacheMiddleware):
            yield part
            continue
        # A decorator that `method_decorator` applies when it is called.
        closure = get_closure(part)
        kind: Any = closure.get("middleware_class")
        if isinstance(kind, type) and issubclass(kind, UpdateCacheMiddleware):
            make: Any = kind
            yield make(_answer_nothing, *closure["m_args"], **closure["m_kwargs"])


def _list_all(view: Any, method: str) -> Iterator[Any]:
    for part in (view, *_list_inside(view, method)):
        yield from walk(part)


def _list_inside(view: Any, method: str) -> tuple[Any, ...]:
    """What a class-based view calls: a price on the view is above it."""
    dispatch = getattr(get_view_class(view), "dispatch", None)
    return (dispatch, *list_handlers(view, (method,)).get(method, ()))


def _list_below(view: Any, method: str) -> Iterator[Any]:
    """Everything that runs below a price of a view."""
    is_below = False
    for part in (view, *_list_inside(view, method)):
        for layer in walk(part):
            if is_below:
                yield layer
            elif is_price(layer):
                yield from walk(getattr(layer, "__wrapped__", None))
            elif get_module(layer) == "django.utils.decorators":
                yield from _list_below_method(get_closure(layer))
        is_below = is_below or bool(find_offers(part))


def _list_below_method(closure: dict[str, Any]) -> Iterator[Any]:
    """Of a `method_decorator`: what it applies before a price, and what it decorates."""
    decorators: list[Any] = list(closure.get("decorators") or ())
    prices = [place for place, decorator in enumerate(decorators) if find_offers(decorator)]
    for decorator in [*decorators[: prices[-1]], closure.get("method")] if prices else []:
        yield from walk(decorator)


def _answer_nothing(_request: HttpRequest) -> HttpResponse:
    return HttpResponse()
