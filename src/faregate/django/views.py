"""`@paid` on a view, and `paid_include` for a whole urlconf.

The price is on what the resolver runs. The decorator opens the gate itself; the middleware opens it
earlier, outside of any transaction, where the decorator is the outermost thing on the view.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import isasyncgenfunction, isawaitable, isclass, iscoroutinefunction
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
GUARD = "faregate_guard"


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

    decorate.__dict__[OFFER] = sold
    return decorate


def paid_include(sells: str, urls: Any, namespace: str | None = None, **limits: Unpack[Limits]) -> Urls:
    """Sell everything of an included urlconf: `path("reports/", paid_include("key", "reports.urls"))`.

    `urls` and `namespace` are what `include` takes.
    """
    module, app_name, namespace = include(urls, namespace)
    return _all_guarded(_patterns(module), offer(sells, **limits)), app_name, namespace


def guarded(view: View, sold: Offer) -> View:
    """The view behind its price. Raises `Misconfigured`."""
    if hasattr(view, "_ninja_operation"):
        raise Misconfigured("django-ninja runs this operation without its price: put @api.get above @paid.")
    if isasyncgenfunction(view):
        raise Misconfigured("An async generator cannot be sold: answer with a StreamingHttpResponse of it.")
    guard = (_awaiting if iscoroutinefunction(view) else _blocking)(view, sold)
    guard.__dict__.update({OFFER: sold, GUARD: guard})
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
