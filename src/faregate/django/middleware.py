"""The middleware: under WSGI it blocks, under ASGI it awaits. Its checkout decides what may leave."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.urls import Resolver404, URLResolver, get_resolver, resolve

from faregate.checkout.checkout import build_timeout_error
from faregate.checkout.context_variables import WorkContext
from faregate.checkout.descriptions import HandlerInfo
from faregate.checkout.path_rules import list_spellings
from faregate.checkout.shielding import is_cancelled_from_outside, make_scope, run_shielded
from faregate.checkout.states import AUTHORIZED, DECIDED
from faregate.core.models import Offer
from faregate.core.withholding import Bypass, may_be_result
from faregate.django import conf
from faregate.django.caches import (
    CachesOutside,
    find_caches_outside,
    list_cache_mistakes,
    list_prefix_cache_mistakes,
)
from faregate.django.decorators import aauthorize, authorize
from faregate.django.exceptions import note_answered_error, watch_operations
from faregate.django.middleware_mistakes import PAYWALL_MADE, list_start_mistakes
from faregate.django.offers import find_early_offer, find_sources, get_view_class, list_handlers
from faregate.django.price_placement import (
    find_given_away,
    find_shadowed,
    inspect_view,
    list_async_mistakes,
    list_prefix_mistakes,
    list_shadow_mistakes,
    name_view,
    walk_patterns,
)
from faregate.django.requests import DjangoCheckout, find_checkout, make_checkout
from faregate.django.responses import (
    PaywallResponse,
    aread_response,
    check_body,
    close_response,
    drop_kept_cookies,
    list_headers,
    read_response,
)
from faregate.django.routes import list_routes
from faregate.errors import ConfigurationError
from faregate.logs import log

GetResponse = Callable[[HttpRequest], Any]


class PaywallMiddleware:
    """Holds every response of a paid view until its payment is proven. Put it last in `MIDDLEWARE`."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        # Python's own knows of marked functions only from 3.12 on.
        self.async_mode = iscoroutinefunction(get_response)  # pyright: ignore[reportDeprecated]
        _check_start()
        _check_urls()
        PAYWALL_MADE.set()
        self._caches_outside = find_caches_outside()
        self._has_expected = False
        if self.async_mode:
            # Mark the class as async-capable, but do the actual switch inside __call__.
            markcoroutinefunction(self)
            # Django looks at this method itself, not at the class, to see whether it needs a thread.
            self.process_view = self.aprocess_view  # type: ignore[method-assign]
            self.process_template_response = self.aprocess_template_response  # type: ignore[method-assign]

    def __call__(self, request: HttpRequest) -> Any:
        if not self._has_expected:
            # Looked for again: gunicorn has gevent replace the threads after it has loaded the application.
            for mistake in list_async_mistakes(get_resolver()):
                raise ConfigurationError(mistake)
            list_routes().expect_offers()
            self._has_expected = True
        if self.async_mode:
            return self.__acall__(request)
        with closing(_make_checkout(request)) as checkout:
            return self._serve(checkout, request)

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        checkout = _make_checkout(request)
        if not checkout.has_payment:
            with closing(checkout):
                return await self._aserve(checkout, request)
        shielded = _ShieldedRequest()
        checkout.has_payer_left = lambda: shielded.has_client_left
        try:
            await run_shielded(lambda: self._serve_in_time(checkout, request, shielded))
        except asyncio.CancelledError:
            # Django waits for us then, with the request's body and the threads that our work may need.
            shielded.has_client_left = True
            await shielded.ended.wait()
            raise
        return shielded.response

    def process_view(self, request: HttpRequest, view: Any, _args: Any, _kwargs: Any) -> Any:
        """Authorize the request before the view, where its price is the first thing on it.

        Refuses what has no price below a refused prefix. Raises `ConfigurationError` for what would be given
        away.
        """
        sold = _find_early_offer(request, view, self._caches_outside)
        return authorize(request, sold) if isinstance(sold, Offer) else sold

    async def aprocess_view(self, request: HttpRequest, view: Any, _args: Any, _kwargs: Any) -> Any:
        """`process_view`, async."""
        sold = _find_early_offer(request, view, self._caches_outside)
        return await aauthorize(request, sold) if isinstance(sold, Offer) else sold

    def process_exception(self, request: HttpRequest, _error: Exception) -> None:
        """Note that the view raised: what answers that is not a result."""
        note_answered_error(request)

    def process_template_response(self, request: HttpRequest, response: Any) -> Any:
        """Note the status of a view, below a prefix too: what renders its response may change it."""
        checkout = find_checkout(request)
        if checkout is not None:
            checkout.note_status(response.status_code)
        return response

    async def aprocess_template_response(self, request: HttpRequest, response: Any) -> Any:
        """`process_template_response`, async."""
        return PaywallMiddleware.process_template_response(self, request, response)

    def _serve(self, checkout: DjangoCheckout, request: HttpRequest) -> HttpResponseBase:
        response: Any = None
        try:
            if checkout.state is DECIDED:  # the path itself is refused: no view runs
                return _answer_unpaid(checkout, request, None)
            offer = checkout.prefix_offer
            # With a payment, the view runs in a context of its own.
            work = WorkContext() if checkout.has_payment else None
            response = offer and authorize(request, offer)
            if not response:
                get = self.get_response
                response = get(request) if work is None else work.run(get, request)
            if checkout.state is not AUTHORIZED:
                if work is not None:
                    work.adopt()
                return _answer_unpaid(checkout, request, response)
            read_response(response, checkout)
            answer = checkout.complete()
            if work is not None and answer.released:
                work.adopt()
            if answer.released and checkout.view_state is not None:
                checkout.view_state.release()
        except BaseException as error:
            if checkout.must_raise(error):
                raise
            answer = checkout.fail(error)
            if _ends_more_than_the_view(error):
                raise
        finally:
            checkout.restore_locale()
        return PaywallResponse(answer, request, response, checkout.is_withheld)

    async def _aserve(self, checkout: DjangoCheckout, request: HttpRequest) -> HttpResponseBase:
        response: Any = None
        try:
            if checkout.state is DECIDED:  # the path itself is refused: no view runs
                return _answer_unpaid(checkout, request, None)
            offer = checkout.prefix_offer
            response = (offer and await aauthorize(request, offer)) or await self.get_response(request)
            if checkout.state is not AUTHORIZED:
                return _answer_unpaid(checkout, request, response)
            await aread_response(response, checkout)
            answer = await checkout.acomplete()
            if answer.released and checkout.view_state is not None:
                await checkout.view_state.arelease()
        except BaseException as error:
            if checkout.must_raise(error) or is_cancelled_from_outside(error):
                raise
            answer = await checkout.afail(error)
            if _ends_more_than_the_view(error):
                raise
        finally:
            checkout.restore_locale()
        return PaywallResponse(answer, request, response, checkout.is_withheld)

    async def _serve_in_time(
        self, checkout: DjangoCheckout, request: HttpRequest, shielded: "_ShieldedRequest"
    ) -> None:
        """With a proof the view can be cancelled, so that it never outlives its payment."""
        try:
            with closing(checkout):
                with make_scope() as checkout.cancel_scope:
                    shielded.response = await self._aserve(checkout, request)
                if checkout.cancel_scope.cancelled_caught:
                    answer = await checkout.afail(build_timeout_error())
                    shielded.response = PaywallResponse(answer, request, None, is_withheld=True)
            if shielded.has_client_left:
                await sync_to_async(close_response)(shielded.response)
        finally:
            shielded.ended.set()


class _ShieldedRequest:
    """A request that is served to its end, and whether its client left before that."""

    response: HttpResponseBase

    def __init__(self) -> None:
        self.has_client_left = False
        self.ended = asyncio.Event()


def _check_start() -> None:
    """Fail the start for a mistake in the settings or in MIDDLEWARE that gives away what is sold.

    Servers run no system checks. Raises `ConfigurationError`.
    """
    config = conf.get_config()
    mistakes = list_start_mistakes(config.path_rules, config.paywall.settings.api_key.environment)
    if advice := [f"{mistake.message} {mistake.hint}" for mistake in mistakes]:
        raise ConfigurationError(" ".join(advice))


def _check_urls() -> None:
    """Raise `ConfigurationError` for a sold view that is never reached, or that a cache outside answers for.

    Each request looks again.
    """
    try:
        # Not remembered: the module of the URLs may be the one that is being imported.
        mistakes = tuple(_list_url_mistakes(get_resolver()))
    except Exception as error:  # Django raises it again for the first request
        log("sale", logging.DEBUG, "the URLs were not checked: %r", error)
        return
    for mistake in mistakes:
        raise ConfigurationError(mistake)


def _list_url_mistakes(resolver: URLResolver) -> Iterator[str]:
    rules = conf.get_config().path_rules
    yield from list_async_mistakes(resolver)
    yield from find_shadowed(resolver)
    yield from list_prefix_mistakes(resolver, rules)
    outside = find_caches_outside()
    for pattern in walk_patterns(resolver) if outside else ():
        yield from list_cache_mistakes(pattern.callback, outside)
    yield from list_prefix_cache_mistakes(resolver, rules)
    yield from list_routes().mistakes


def _make_checkout(request: HttpRequest) -> DjangoCheckout:
    checkout = make_checkout(conf.get_config(), request, partial(_find_bypass, request))
    checkout.find_handler = partial(_find_handler, request)
    return checkout


def _find_handler(request: HttpRequest) -> HandlerInfo | None:
    match = request.resolver_match
    return None if match is None else (find_sources(match.func, str(request.method)), None)


def _find_early_offer(request: HttpRequest, view: Any, outside: CachesOutside) -> Offer | HttpResponse | None:
    """Find the offer to authorize before the view runs; a response in its place if it is refused."""
    if _is_refused(request, view, outside):
        return HttpResponse(status=403)
    return find_early_offer(view, str(request.method))


def _is_refused(request: HttpRequest, view: Any, outside: CachesOutside) -> bool:
    """Whether this view is below a refused prefix and has no offer. Raises `ConfigurationError`."""
    checkout, placement = find_checkout(request), inspect_view(view, str(request.method))
    if checkout is not None:
        checkout.has_called_handler = True
    watch_operations(view)
    resolver = get_resolver(getattr(request, "urlconf", None))  # middleware may have chosen another URLconf
    is_protected = checkout is not None and checkout.path_match.protected
    rules = conf.get_config().path_rules
    given_away = None if is_protected else find_given_away(resolver, rules).get(id(view))
    own = (*placement.mistakes, *((given_away,) if given_away else ()))
    is_path_sold = checkout is not None and checkout.path_match.offer is not None
    cached = list_cache_mistakes(view, outside, is_path_sold=is_path_sold)
    reached = list_prefix_mistakes(resolver, rules)
    for mistake in (*own, *list_shadow_mistakes(resolver), *reached, *cached):
        note_answered_error(request)
        raise ConfigurationError(mistake)
    if checkout is not None:
        checkout.begin_prefix_call()
    if checkout is None or not checkout.path_match.refused:
        return False
    if checkout.path_match.offer is not None or placement.offers:
        return False
    checkout.refuse_unsold()
    return True


def _find_bypass(request: HttpRequest, status: int) -> Bypass | None:
    """Find what answered with this status in place of a paid view; None if that may leave."""
    view = _find_view(request)
    if view is None:
        return None
    offers = [offer for method in _list_methods(request, view) for offer in inspect_view(view, method).offers]
    if not offers or not may_be_result(status, offers):
        return None
    mistake = (
        f"{name_view(view)} was answered by something above its price, such as a cache, unpaid. "
        "What answers in place of a view belongs below @paid, unless it refuses, or redirects to a page of "
        "this project whose path has no parameters, as to a login."
    )
    return Bypass(mistake, partial(_is_free_page, request))


def _is_free_page(request: HttpRequest, path: str) -> bool:
    """See `Bypass.is_free_page`. The login of the settings is one, also if no pattern has its path.

    A login at another host is none: `release.build_plain_redirect` makes redirects to this host only.
    """
    if path == resolve_url(settings.LOGIN_URL):
        return True
    path_info = path.removeprefix(request.META.get("SCRIPT_NAME", ""))
    try:
        match = resolve(path_info, getattr(request, "urlconf", None))
    except Resolver404:
        return False
    # A regular expression without groups can match many paths: it must be plain text.
    route = str(match.route).removesuffix("$").removesuffix(r"\Z").replace("^", "")
    return f"/{route}" == path_info and not inspect_view(match.func, "GET").offers


def _list_methods(request: HttpRequest, view: Any) -> tuple[str, ...]:
    """The methods whose results may be in an answer: all, if the view itself has no answer to this one."""
    method = str(request.method)
    has_handler = method != "OPTIONS" and method in list_handlers(view, (method,))
    is_answered = get_view_class(view) is None or has_handler
    return (method,) if is_answered else ("GET", "POST", "PUT", "PATCH", "DELETE")


def _find_view(request: HttpRequest) -> Any:
    """Resolve the URL, also if middleware below the paywall answered before Django did."""
    if request.resolver_match is not None:
        return request.resolver_match.func
    for path in (request.path_info, *list_spellings(request.path_info)):
        with suppress(Resolver404):
            return resolve(path, getattr(request, "urlconf", None)).func
    return None


def _ends_more_than_the_view(error: BaseException) -> bool:
    # A view that raises CancelledError of its own accord has failed: its request was not cancelled.
    return not isinstance(error, Exception | asyncio.CancelledError)


def _answer_unpaid(
    checkout: DjangoCheckout, request: HttpRequest, response: HttpResponseBase | None
) -> HttpResponseBase:
    """Return the view's response if it may leave unpaid, without kept cookies; else the decided one."""
    if response is not None:
        try:
            if checkout.allow_unpaid(response.status_code, lambda: list_headers(response)):
                check_body(response, checkout)
                drop_kept_cookies(response)
                return response
        except ConfigurationError:
            close_response(response)
            raise
    return PaywallResponse(checkout.complete(), request, response, checkout.is_withheld)
