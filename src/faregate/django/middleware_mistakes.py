"""Find mistakes in `MIDDLEWARE`: the paywall's place in it, and middleware that answers instead of it."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.utils.module_loading import import_string

from faregate.checkout.path_rules import PathRules
from faregate.checkout.whitenoise import list_urls
from faregate.django.options import read_options
from faregate.django.price_placement import inspect_view
from faregate.errors import ConfigurationError

PAYWALL_SETTING = "faregate.django.PaywallMiddleware"
"""How sellers name the paywall in `MIDDLEWARE`."""
LAST = f'Put "{PAYWALL_SETTING}" at the end of MIDDLEWARE.'
_PAYWALL_CLASS = "faregate.django.middleware.PaywallMiddleware"
"""Where its class is defined: the name in `list_kinds`."""
_WHITENOISE = "whitenoise.middleware.WhiteNoiseMiddleware"
_FLATPAGES = "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware"
_NO_PAYWALL = (
    "FAREGATE has OFFERS or REFUSE, and the paywall is not in MIDDLEWARE: everything below them would be "
    "free."
)
_MOST_SHOWN = 3

PAYWALL_MADE = Event()
"""Set when this process has made a paywall."""


@dataclass(frozen=True)
class Mistake:
    """A mistake, what to do, and the number of the system check that reports it."""

    number: str
    message: str
    hint: str


def list_stack_mistakes(path_rules: PathRules | None) -> Iterator[Mistake]:
    """E001: missing. E005: there twice. E007: not the last one. E009: see `list_given_away`."""
    names: Sequence[str] = settings.MIDDLEWARE
    places = _find_places(names)
    if not places:
        yield Mistake("E001", "The paywall is not in MIDDLEWARE: every paid view is an error.", LAST)
        return
    if len(places) > 1:
        yield Mistake("E005", "The paywall is in MIDDLEWARE twice.", LAST)
        return
    if after := names[places[0] + 1 :]:
        seen = f"{after[0]!r} comes after the paywall: it sees results before they are paid for."
        yield Mistake("E007", seen, LAST)
    yield from list_given_away(path_rules)


def list_start_mistakes(path_rules: PathRules, environment: str) -> Iterator[Mistake]:
    """List the mistakes with which no server starts.

    Where a class of the seller's own makes the paywall, its place is not known, and not a mistake.
    """
    yield from list_debug_mistakes(environment)
    if _find_places(settings.MIDDLEWARE):
        yield from list_stack_mistakes(path_rules)
    else:
        yield from list_given_away(path_rules)


def check_served() -> None:
    """Raise `ConfigurationError` if a server would start without the paywall in front of its prefixes."""
    names: Sequence[str] = settings.MIDDLEWARE
    if not {PAYWALL_SETTING, _PAYWALL_CLASS}.isdisjoint(names) or not _has_prefixes():
        return
    try:
        places = _find_places(names)
    except Exception:  # Django imports them again, when all apps are ready
        return
    if not places:
        raise ConfigurationError(f"{_NO_PAYWALL} {LAST}")


def require_paywall(**_: object) -> None:
    """Let no request in where prefixes are declared and no paywall was made.

    Raises `ConfigurationError`.
    """
    if not PAYWALL_MADE.is_set() and _has_prefixes():
        raise ConfigurationError(f"{_NO_PAYWALL} {LAST}")


def _has_prefixes() -> bool:
    options = read_options()
    return bool(options.get("OFFERS") or options.get("REFUSE"))


def list_debug_mistakes(environment: str) -> Iterator[Mistake]:
    """E003: Django's page of an error shows the variables of a view, also of one that is sold."""
    if settings.DEBUG and environment == "live":
        message = "A live key is used with DEBUG: error pages disclose what is sold, and other secrets."
        yield Mistake("E003", message, "Set DEBUG = False, or use a test key.")


def list_given_away(path_rules: PathRules | None) -> Iterator[Mistake]:
    """E009: what stands before the paywall and answers where something is sold or refused."""
    rules = PathRules() if path_rules is None else path_rules
    for name in list_outside():
        kinds = list_kinds(name)
        places: list[str] = []
        if _FLATPAGES in kinds:
            places = [*rules.offers, *rules.refused]
        elif _WHITENOISE in kinds:
            places = list(dict.fromkeys(_list_files(name, rules)))
        if places:
            more = f" and {len(places) - _MOST_SHOWN} others" if len(places) > _MOST_SHOWN else ""
            yield Mistake(
                "E009",
                f"{name!r} comes before the paywall and answers at {', '.join(places[:_MOST_SHOWN])}{more} "
                "by itself, for free.",
                "Keep what is sold out of its reach, or serve it by a view.",
            )


def list_outside() -> Sequence[str]:
    """List the middleware in front of the paywall.

    Where a class of the seller's own makes the paywall, its place is not known: all of MIDDLEWARE is listed.
    """
    names: Sequence[str] = settings.MIDDLEWARE
    return names[: min(_find_places(names), default=len(names))]


def _find_places(names: Sequence[str]) -> list[int]:
    return [place for place, name in enumerate(names) if _PAYWALL_CLASS in list_kinds(name)]


def list_kinds(name: str) -> list[str]:
    """List the names of a middleware's class and its bases. By name: WhiteNoise may not be installed."""
    bases: tuple[type, ...] = getattr(import_string(name), "__mro__", ())
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in bases]


def _list_files(name: str, rules: PathRules) -> Iterator[str]:
    """List where WhiteNoise answers although something is sold or refused there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Django makes another one, which warns of missing folders
            whitenoise: Any = import_string(name)(_answer_nothing)
    except MiddlewareNotUsed:
        return
    root = (settings.FORCE_SCRIPT_NAME or "").rstrip("/")
    for prefix in (*rules.offers, *rules.refused):
        # Files may be collected there later.
        if any(_overlap(prefix, f"{above}{whitenoise.static_prefix}") for above in {"", root}):
            yield prefix
    for url in list_urls(whitenoise):
        if rules.match(url, root).protected or _is_sold(url):
            yield url


def _answer_nothing(_request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def _overlap(prefix: str, static: str) -> bool:
    mine, theirs = f"{prefix.rstrip('/')}/", static.casefold()
    return mine.startswith(theirs) or theirs.startswith(mine)


def _is_sold(url: str) -> bool:
    try:
        return bool(inspect_view(resolve(url).func, "GET").offers)
    except Resolver404:
        return False
