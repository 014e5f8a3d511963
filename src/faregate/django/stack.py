"""Find mistakes in `MIDDLEWARE`: the paywall's place in it, and middleware that answers instead of it."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import isclass
from os.path import isdir, join
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import Resolver404, resolve
from django.utils.module_loading import import_string

from faregate.django.placement import inspect_view
from faregate.middleware.path_rules import PathRules

PAYWALL = "faregate.django.PaywallMiddleware"
LAST = f'Put "{PAYWALL}" at the end of MIDDLEWARE.'
_WHITENOISE = "whitenoise.middleware.WhiteNoiseMiddleware"
_FLATPAGES = "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware"


@dataclass(frozen=True)
class Mistake:
    """A mistake, what to do, and the number of the system check that tells it."""

    number: str
    message: str
    hint: str


def list_stack_mistakes(path_rules: PathRules | None) -> Iterator[Mistake]:
    """E001: missing. E005: there twice. E007: not the last one. E009: answers below a prefix before it."""
    names: Sequence[str] = settings.MIDDLEWARE
    places = [place for place, name in enumerate(names) if _is_paywall(name)]
    if not places:
        yield Mistake("E001", "The paywall is not in MIDDLEWARE: every paid view is an error.", LAST)
        return
    if len(places) > 1:
        yield Mistake("E005", "The paywall is in MIDDLEWARE twice.", LAST)
        return
    if after := names[places[0] + 1 :]:
        seen = f"{after[0]!r} comes after the paywall: it sees results before they are paid for."
        yield Mistake("E007", seen, LAST)
    for name in names[: places[0]]:
        yield from _list_answers(
            name, () if path_rules is None else (*path_rules.offers, *path_rules.refused)
        )


def _is_paywall(name: str) -> bool:
    """By what it is: it may be named by its own module, or be a subclass."""
    from faregate.django.middleware import PaywallMiddleware

    found = import_string(name)
    return isclass(found) and issubclass(found, PaywallMiddleware)


def _list_answers(name: str, prefixes: Sequence[str]) -> Iterator[Mistake]:
    """List the middleware that is known to answer before the paywall."""
    # By name, because WhiteNoise may not be installed; with its bases, because it may be a subclass.
    kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in getattr(import_string(name), "__mro__", ())]
    sold = [
        prefix for prefix in prefixes if (_WHITENOISE in kinds and _serves(prefix)) or _FLATPAGES in kinds
    ]
    if _WHITENOISE in kinds:
        sold += filter(_is_sold, _list_root())
    for place in sold:
        yield Mistake(
            "E009",
            f"{name!r} comes before the paywall and answers at {place} by itself, for free.",
            "Keep what is sold out of its reach, or serve it by a view.",
        )


def _serves(prefix: str) -> bool:
    """Whether WhiteNoise has files below this prefix: static ones, or a folder of its root."""
    static = getattr(settings, "WHITENOISE_STATIC_PREFIX", None) or urlsplit(settings.STATIC_URL or "").path
    mine, theirs = f"{prefix.rstrip('/')}/", f"/{static.strip('/')}/".replace("//", "/").casefold()
    if static and (mine.startswith(theirs) or theirs.startswith(mine)):
        return True
    root = getattr(settings, "WHITENOISE_ROOT", None)
    return bool(root) and isdir(join(str(root), prefix.strip("/")))


def _list_root() -> Iterator[str]:
    """The addresses of the files in WhiteNoise's root."""
    root = str(getattr(settings, "WHITENOISE_ROOT", None) or "")
    for folder, _, names in os.walk(root) if root else ():
        below = os.path.relpath(folder, root).replace(os.sep, "/")
        yield from ("/" + (name if below == "." else f"{below}/{name}") for name in names)


def _is_sold(url: str) -> bool:
    try:
        return bool(inspect_view(resolve(url).func, "GET").offers)
    except Resolver404:
        return False
