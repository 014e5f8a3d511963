"""`@paid` on a view, and `paid_include` for a whole urlconf.

The price is on what the resolver runs. The decorator asks for the payment itself; the middleware does so
earlier, outside of any transaction, where the decorator is the outermost thing on the view.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import isasyncgenfunction, isawaitable, isclass, iscoroutinefunction
from types import ModuleType
from typing import Any, TypeVar, Unpack, cast, overload

from asgiref.sync import async_to_sync, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, include

from faregate.checkout.argument_checks import check_choose
from faregate.checkout.checkout import SkipHandler
from faregate.checkout.handlers import find_offers, mark_price
from faregate.checkout.wrapped_callables import get_module, is_async, walk
from faregate.core.models import Choose, Offer
from faregate.core.responses import NO_STORE
from faregate.core.withholding import MARK, may_be_result
from faregate.django.requests import find_request, get_checkout
from faregate.django.responses import mark_private
from faregate.errors import ConfigurationError
from faregate.offers import OfferOptions, make_offer

V = TypeVar("V", bound=Callable[..., Any])
View = Callable[..., Any]
Urls = tuple[list[URLPattern | URLResolver], str | None, str | None]

_INCLUDABLE: tuple[type, ...] = (str, list, tuple, ModuleType)

LOGINS = "django.contrib.auth.decorators"


@overload
def paid(sells: str, among: None = None, **limits: Unpack[OfferOptions]) -> Callable[[V], V]: ...
@overload
def paid(sells: Choose, among: Sequence[str | Offer], **limits: Unpack[OfferOptions]) -> Callable[[V], V]: ...
def paid(
    sells: str | Choose, among: Sequence[str | Offer] | None = None, **limits: Unpack[OfferOptions]
) -> Callable[[V], V]:
    """Sell the response of a view. The view finds its `Payment` in `request.payment`.

    `sells` is an integration key or an `acr_` revision id; or a function, plain or async, that gets Django's
    request and returns one of the names in `among`. Goes on functions, plain or async, and with
    `method_decorator(paid(...), name="dispatch")` on classes; on methods and operations of REST framework
    and django-ninja. Raises `ConfigurationError`, here or on the first call.
    """
    sold = make_offer(sells, among, limits, "Say what is sold, with parentheses: @paid('text_summary').")
    check_choose(sold)

    def decorate(view: V) -> V:
        return cast(V, wrap_view(view, sold))

    mark_price(decorate, sold)
    return decorate


@overload
def paid_include(
    sells: str, urls: Any, namespace: str | None = None, among: None = None, **limits: Unpack[OfferOptions]
) -> Urls: ...
@overload
def paid_include(
    sells: Choose,
    urls: Any,
    namespace: str | None = None,
    *,
    among: Sequence[str | Offer],
    **limits: Unpack[OfferOptions],
) -> Urls: ...
def paid_include(
    sells: str | Choose,
    urls: Any,
    namespace: str | None = None,
    among: Sequence[str | Offer] | None = None,
    **limits: Unpack[OfferOptions],
) -> Urls:
    """Sell every view of an included urlconf: `path("reports/", paid_include("key", "reports.urls"))`.

    `urls` and `namespace` are what `include` takes; or `urls` is what a site or an API says of itself, as
    `NinjaAPI(...).urls`. Raises `ConfigurationError`.
    """
    message = "Say what is sold: paid_include('text_summary', 'reports.urls')."
    sold = make_offer(sells, among, limits, message)
    check_choose(sold)
    given: object = urls
    if callable(given) or not isinstance(given, _INCLUDABLE):
        raise ConfigurationError(
            "paid_include takes what include takes: paid_include('text_summary', 'reports.urls'). For one "
            "view, use paid('...')(view)."
        )
    named = urls if _is_include_result(urls) else include(urls, namespace)
    return _wrap_patterns(_list_patterns(named[0]), sold), named[1], named[2]


def wrap_view(view: View, sold: Offer) -> View:
    """The view behind its price. Raises `ConfigurationError`."""
    if isclass(view):
        raise ConfigurationError('On a class, use @method_decorator(paid(...), name="dispatch").')
    if not callable(view):
        raise ConfigurationError(
            "paid(...) decorates a view. For the result of include, use paid_include(...)."
        )
    if getattr(view, "__name__", "") == "as_view":
        raise ConfigurationError("Call as_view: paid(...)(View.as_view()).")
    if any(hasattr(part, "_ninja_operation") for part in walk(view)):
        raise ConfigurationError(
            "django-ninja runs this operation without its price: put @api.get above @paid. For a whole "
            "router say add_decorator(paid(...), mode='view')."
        )
    if has_login(view):
        raise ConfigurationError(LOGIN_BELOW.format(name=getattr(view, "__name__", view)))
    if isasyncgenfunction(view):
        raise ConfigurationError("An async generator cannot be sold: return a StreamingHttpResponse of it.")
    guard = (_make_async_guard if iscoroutinefunction(view) else _make_guard)(view, sold)
    mark_price(guard, sold)
    return guard


def _make_async_guard(view: View, sold: Offer) -> View:
    prices_inside = len(find_offers(view))

    @wraps(view)
    async def guard(*args: Any, **kwargs: Any) -> Any:
        return await _run_async(view, sold, prices_inside, args, kwargs)

    return guard


def _make_guard(view: View, sold: Offer) -> View:
    prices_inside = len(find_offers(view))

    @wraps(view)
    def guard(*args: Any, **kwargs: Any) -> Any:
        if _is_loop_running():
            # An async view behind a plain function, as classes have them.
            return _run_async(view, sold, prices_inside, args, kwargs)
        request = find_request(args, kwargs)
        stopped = authorize(request, sold, prices_inside)
        return _forbid_storing(request, view(*args, **kwargs), sold) if stopped is None else stopped

    return guard


async def _run_async(
    view: View, sold: Offer, prices_inside: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    request = find_request(args, kwargs)
    stopped = await aauthorize(request, sold, prices_inside)
    if stopped is not None:
        return stopped
    answer = view(*args, **kwargs)
    return _forbid_storing(request, await answer if isawaitable(answer) else answer, sold)


def _forbid_storing(request: HttpRequest, answer: Any, sold: Offer) -> Any:
    """Mark what a view answers, so that a cache above its price leaves it alone, or is found."""
    vars(request)["_cache_update_cache"] = False  # what Django's own cache looks at
    if isinstance(answer, HttpResponseBase):
        get_checkout(request, sold).note_status(answer.status_code)
        mark_private(answer)
        if may_be_result(answer.status_code, (sold,)):
            answer.headers[MARK[0]] = MARK[1]
    return answer


def authorize(request: HttpRequest, offer: Offer, prices_inside: int | None = None) -> HttpResponse | None:
    """Ask whether the view may run; if not, return a response that stops the call and is not sent.

    `prices_inside`: see `Checkout.start_work`; None before the view.
    """
    checkout = get_checkout(request, offer)
    checkout.check_routed_path(request)
    try:
        payment = checkout.authorize(offer, lambda: checkout.keep_state(request), partial(_ask, request))
    except SkipHandler as stop:
        return _build_stop(stop)
    if prices_inside is not None:
        checkout.start_work(prices_inside)
    request.payment = payment  # type: ignore[attr-defined]
    return None


async def aauthorize(
    request: HttpRequest, offer: Offer, prices_inside: int | None = None
) -> HttpResponse | None:
    """`authorize`, async."""
    checkout = get_checkout(request, offer)
    checkout.check_routed_path(request)
    try:
        payment = await checkout.aauthorize(
            offer, lambda: checkout.keep_state(request), partial(_aask, request)
        )
    except SkipHandler as stop:
        return _build_stop(stop)
    if prices_inside is not None:
        checkout.start_work(prices_inside)
    request.payment = payment  # type: ignore[attr-defined]
    return None


def _ask(request: HttpRequest, choose: Choose) -> object:
    return (async_to_sync(cast(Any, choose)) if is_async(choose) else choose)(request)


async def _aask(request: HttpRequest, choose: Choose) -> object:
    # A plain function may use the database, whose connections belong to a thread.
    return await (cast(Any, choose) if is_async(choose) else sync_to_async(choose))(request)


def _build_stop(stop: SkipHandler) -> HttpResponse:
    return HttpResponse(status=stop.status, headers=dict([NO_STORE]))


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# Read the order of decorators without running them


LOGIN_BELOW = (
    "A login stands below the price of {name!r}: a payer who is not logged in would pay for a redirect. "
    "Put the login above @paid."
)


def has_login(view: object) -> bool:
    """Whether a decorator of Django's that redirects to a login is on this."""
    return any(get_module(part) == LOGINS for part in walk(view))


def _is_include_result(urls: Any) -> bool:
    parts: Any = urls
    return isinstance(urls, tuple) and len(parts) == 3


def _list_patterns(urls: Any) -> Sequence[URLPattern | URLResolver]:
    patterns: Any = urls.urlpatterns if isinstance(urls, ModuleType) else urls
    return cast(Sequence[URLPattern | URLResolver], patterns)


def _wrap_patterns(patterns: Sequence[Any], sold: Offer) -> list[URLPattern | URLResolver]:
    return [_wrap_pattern(pattern, sold) for pattern in patterns]


def _wrap_pattern(pattern: Any, sold: Offer) -> URLPattern | URLResolver:
    if isinstance(pattern, URLResolver):
        inside = _wrap_patterns(pattern.url_patterns, sold)
        return URLResolver(
            pattern.pattern, inside, pattern.default_kwargs, pattern.app_name, pattern.namespace
        )
    # A new one: the same urlconf may be included elsewhere without a price.
    return URLPattern(pattern.pattern, wrap_view(pattern.callback, sold), pattern.default_args, pattern.name)
