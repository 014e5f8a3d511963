"""`@paid` on a view, and `paid_include` for a whole urlconf.

The price is on what the resolver runs. The decorator opens the gate itself; the middleware opens it
earlier, outside of any transaction, where the decorator is the outermost thing on the view.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import isawaitable, isclass, iscoroutinefunction
from types import ModuleType
from typing import Any, TypeVar, Unpack, cast

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include

from faregate.django.requests import gate_of, request_in
from faregate.errors import Misconfigured
from faregate.gate import PaymentStop
from faregate.model import Offer
from faregate.paywall import Limits, offer

V = TypeVar("V", bound=Callable[..., Any])
View = Callable[..., Any]
Urls = tuple[list[URLPattern | URLResolver], str | None, str | None]

OFFER = "faregate_offer"
_GUARD = "faregate_guard"

# Where Django and REST framework make the functions of class-based views, and wrap them unasked.
_CLASS_VIEWS = ("django.views.generic.base", "rest_framework.viewsets")
_TRANSPARENT = "django.views.decorators.csrf"


def paid(sells: str, **limits: Unpack[Limits]) -> Callable[[V], V]:
    """Sell what a view answers; it finds its `Payment` in `request.payment`.

    `sells` is an integration key or an `acr_` revision id. Goes on functions, plain or async, and with
    `method_decorator(paid(...), name="dispatch")` on classes; on methods and operations of REST framework
    and django-ninja. Raises `Misconfigured`, here or on the first call.
    """
    sold = offer(sells, **limits)

    def decorate(view: V) -> V:
        if isclass(view):
            raise Misconfigured('On a class say @method_decorator(paid(...), name="dispatch").')
        return cast(V, guarded(view, sold))

    return decorate


def paid_include(sells: str, urls: Any, namespace: str | None = None, **limits: Unpack[Limits]) -> Urls:
    """Sell everything of an included urlconf: `path("reports/", paid_include("key", "reports.urls"))`.

    `urls` and `namespace` are what `include` takes.
    """
    module, app_name, namespace = include(urls, namespace)
    return _all_guarded(_patterns(module), offer(sells, **limits)), app_name, namespace


def guarded(view: View, sold: Offer) -> View:
    """The view behind its price."""
    guard = (_awaiting if iscoroutinefunction(view) else _blocking)(view, sold)
    guard.__dict__.update({OFFER: sold, _GUARD: guard})
    return guard


def _awaiting(view: View, sold: Offer) -> View:
    @wraps(view)
    async def guard(*args: Any, **kwargs: Any) -> Any:
        return await _awaited(view, sold, args, kwargs)

    return guard


def _blocking(view: View, sold: Offer) -> View:
    @wraps(view)
    def guard(*args: Any, **kwargs: Any) -> Any:
        if _on_a_loop():
            # An async view behind a plain function, as classes have them.
            return _awaited(view, sold, args, kwargs)
        stopped = enter(request_in(args, kwargs), sold)
        return view(*args, **kwargs) if stopped is None else stopped

    return guard


async def _awaited(view: View, sold: Offer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    stopped = await aenter(request_in(args, kwargs), sold)
    if stopped is not None:
        return stopped
    answer = view(*args, **kwargs)
    return await answer if isawaitable(answer) else answer


def enter(request: HttpRequest, sold: Offer) -> HttpResponse | None:
    """Open the gate; if it stays shut, an answer to stop with, which nobody sees."""
    try:
        request.payment = gate_of(request, sold).open(sold)  # type: ignore[attr-defined]
    except PaymentStop as stop:
        return HttpResponse(status=stop.status)
    return None


async def aenter(request: HttpRequest, sold: Offer) -> HttpResponse | None:
    """`enter`, awaiting."""
    try:
        request.payment = await gate_of(request, sold).aopen(sold)  # type: ignore[attr-defined]
    except PaymentStop as stop:
        return HttpResponse(status=stop.status)
    return None


def offer_at_the_door(view: View) -> Offer | None:
    """What a resolved view sells before anything else of it runs: not what stands below a login."""
    while _made_in(view) == _TRANSPARENT and hasattr(view, "__wrapped__"):
        view = cast(Any, view).__wrapped__
    if _made_in(view) in _CLASS_VIEWS:
        return _offer_of(getattr(_class_of(view), "dispatch", None))
    return _offer_of(view) if getattr(view, _GUARD, None) is view else None


def offer_of(view: Any) -> Offer | None:
    """What a resolved view sells to everybody, wherever on it that is said."""
    return _offer_of(view) or _offer_of(getattr(_class_of(view), "dispatch", None))


def offers_by_method(view: Any, methods: Sequence[str]) -> dict[str, Offer | None]:
    """What the methods of a class-based view sell; empty for a function."""
    kind = _class_of(view)
    actions: dict[str, str] = getattr(view, "actions", None) or {}
    found: dict[str, Offer | None] = {}
    for method in methods:
        handler = getattr(kind, actions.get(method.lower(), method.lower()), None)
        if handler is not None:
            found[method] = _offer_of(handler)
    return found


def _class_of(view: Any) -> Any:
    """Of a class-based view; REST framework's viewsets name theirs otherwise."""
    return getattr(view, "view_class", None) or getattr(view, "cls", None)


def _offer_of(view: object) -> Offer | None:
    sold = getattr(view, OFFER, None)
    return sold if isinstance(sold, Offer) else None


def _made_in(view: Any) -> str:
    """The module whose code this is, whatever it wraps."""
    return str(getattr(view, "__globals__", {}).get("__name__", ""))


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _patterns(urls: Any) -> Sequence[URLPattern | URLResolver]:
    found: Any = urls.urlpatterns if isinstance(urls, ModuleType) else urls
    return cast(Sequence[URLPattern | URLResolver], found)


def _all_guarded(patterns: Sequence[Any], sold: Offer) -> list[URLPattern | URLResolver]:
    return [_one_guarded(pattern, sold) for pattern in patterns]


def _one_guarded(pattern: Any, sold: Offer) -> URLPattern | URLResolver:
    if isinstance(pattern, URLResolver):
        inside = _all_guarded(pattern.url_patterns, sold)
        return URLResolver(
            pattern.pattern, inside, pattern.default_kwargs, pattern.app_name, pattern.namespace
        )
    return URLPattern(pattern.pattern, guarded(pattern.callback, sold), pattern.default_args, pattern.name)
