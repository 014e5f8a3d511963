"""One middleware for both colours: under WSGI it blocks, under ASGI it awaits. It decides nothing."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import anyio
from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, get_resolver, resolve

from faregate.core.models import Response
from faregate.django import conf
from faregate.django.decorators import aenter, enter
from faregate.django.offers import offer_at_the_door
from faregate.django.placement import find_given_away, inspect_view, name_of
from faregate.django.requests import RequestCheckout, find_checkout, make_gate, may_pay
from faregate.django.responses import Answer, agathered, gathered, let_go
from faregate.django.state import restore_locale
from faregate.errors import ConfigurationError, WorkInterrupted, WorkTimedOut
from faregate.middleware.shielding import is_cancelled_from_outside, to_the_end

GetResponse = Callable[[HttpRequest], Any]


class PaywallMiddleware:
    """Holds every response of a paid view until its payment is proven. Put it last in `MIDDLEWARE`."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        # Python's own knows of marked functions only from 3.12 on.
        self.async_mode = iscoroutinefunction(get_response)  # pyright: ignore[reportDeprecated]
        conf.shop()  # a mistake in the settings fails the start
        if self.async_mode:
            # Mark the class as async-capable, but do the actual switch inside __call__.
            markcoroutinefunction(self)
            self.process_view = self.aprocess_view  # type: ignore[method-assign]

    def __call__(self, request: HttpRequest) -> Any:
        if self.async_mode:
            return self.__acall__(request)
        checkout = make_gate(conf.shop(), request)
        with closing(checkout):
            return self._served(checkout, request)

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        checkout = make_gate(conf.shop(), request)
        if not may_pay(request):
            with closing(checkout):
                return await self._aserved(checkout, request)
        errand = _Errand()
        try:
            await to_the_end(lambda: self._limited(checkout, request, errand))
        except asyncio.CancelledError:
            # Django waits for us then, with the request's body and the threads that our work may need.
            errand.left = True
            await errand.ended.wait()
            raise
        return errand.answer

    def process_view(self, request: HttpRequest, view: Any, _args: Any, _kwargs: Any) -> Any:
        """Open the gate before the view, where its price is the first thing on it.

        Refuses what has no price below a refused prefix. Raises `ConfigurationError` for what would be given
        away.
        """
        if _is_refused(request, view):
            return HttpResponse(status=403)
        sold = offer_at_the_door(view, str(request.method))
        return None if sold is None else enter(request, sold)

    async def aprocess_view(self, request: HttpRequest, view: Any, _args: Any, _kwargs: Any) -> Any:
        """`process_view`, awaiting."""
        if _is_refused(request, view):
            return HttpResponse(status=403)
        sold = offer_at_the_door(view, str(request.method))
        return None if sold is None else await aenter(request, sold)

    def _served(self, checkout: RequestCheckout, request: HttpRequest) -> HttpResponseBase:
        response: Any = None
        with restore_locale(lambda: not checkout.is_withheld()):
            try:
                if checkout.verdict is not None:  # the path itself is refused: no view runs
                    return _unsold(checkout, request, None)
                sold = checkout.ground_offer
                response = (sold and enter(request, sold)) or self.get_response(request)
                if checkout.verdict is not None or checkout.payment is None:
                    return _unsold(checkout, request, response)
                answer = checkout.conclude(gathered(response, checkout))
                if answer.released and checkout.state is not None:
                    checkout.state.release()
            except BaseException as error:
                answer = checkout.abandon(_of_the_work(checkout, error))
                if _ends_more_than_the_work(error):
                    raise
            return Answer(answer, request, response, checkout.is_withheld())

    async def _aserved(self, checkout: RequestCheckout, request: HttpRequest) -> HttpResponseBase:
        response: Any = None
        with restore_locale(lambda: not checkout.is_withheld()):
            try:
                if checkout.verdict is not None:  # the path itself is refused: no view runs
                    return _unsold(checkout, request, None)
                sold = checkout.ground_offer
                response = (sold and await aenter(request, sold)) or await self.get_response(request)
                if checkout.verdict is not None or checkout.payment is None:
                    return _unsold(checkout, request, response)
                answer = await checkout.aconclude(await agathered(response, checkout))
                if answer.released and checkout.state is not None:
                    await checkout.state.arelease()
            except BaseException as error:
                answer = await checkout.aabandon(_of_the_work(checkout, error))
                if _ends_more_than_the_work(error):
                    raise
            return Answer(answer, request, response, checkout.is_withheld())

    async def _limited(self, checkout: RequestCheckout, request: HttpRequest, errand: "_Errand") -> None:
        """With a proof the view can be cut off, so that it never outlives its payment."""
        try:
            with closing(checkout):
                with anyio.CancelScope() as checkout.limit:
                    errand.answer = await self._aserved(checkout, request)
                if checkout.limit.cancelled_caught:
                    late = WorkTimedOut("the work took longer than its payment is valid")
                    errand.answer = Answer(await checkout.aabandon(late), request, None, is_withheld=True)
            if errand.left:
                await sync_to_async(let_go)(errand.answer)
        finally:
            errand.ended.set()


class _Errand:
    """A request that is served to its end, and whether its payer `left` before that."""

    answer: HttpResponseBase

    def __init__(self) -> None:
        self.left = False
        self.ended = asyncio.Event()


def _is_refused(request: HttpRequest, view: Any) -> bool:
    """Whether nothing of this view is for sale below a refused prefix. Raises `ConfigurationError`."""
    checkout, placement = find_checkout(request), inspect_view(view, str(request.method))
    given_away = find_given_away(get_resolver(getattr(request, "urlconf", None))).get(id(view))
    for mistake in (*placement.mistakes, *((given_away,) if given_away else ())):
        raise ConfigurationError(mistake)
    if checkout is None or not checkout.place.closed or checkout.place.offer is not None or placement.offers:
        return False
    checkout.refuse_closed()
    return True


def _check_answer(checkout: RequestCheckout, request: HttpRequest, response: HttpResponseBase) -> None:
    """Nobody paid: withhold what came in a paid view's place. Raises `ConfigurationError`."""
    is_given = response.status_code < 300 or response.status_code in (304, 402)
    if not is_given or request.method == "OPTIONS":
        return  # a redirect or a refusal, as by a login above the price
    _check_unopened(checkout, response)
    view = _find_view(request)
    if view is not None and inspect_view(view, str(request.method)).offers:
        let_go(response)
        raise ConfigurationError(
            f"{name_of(view)} was answered by something above its price, such as a cache: nobody has paid. "
            "What answers in place of a view belongs below @paid, or must redirect or refuse."
        )


def _check_unopened(checkout: RequestCheckout, response: HttpResponseBase) -> None:
    try:
        checkout.check_unopened()
    except ConfigurationError:
        let_go(response)
        raise


def _find_view(request: HttpRequest) -> Any:
    """What the URL resolves to, also where something below the paywall answered before it was resolved."""
    match = request.resolver_match
    if match is None:
        try:
            match = resolve(request.path_info, getattr(request, "urlconf", None))
        except Resolver404:
            return None
    return match.func


def _unsold(
    checkout: RequestCheckout, request: HttpRequest, response: HttpResponseBase | None
) -> HttpResponseBase:
    """Nobody paid: the verdict, or else the view's own answer, untouched."""
    if checkout.verdict is None and response is not None:
        _check_answer(checkout, request, response)
    if checkout.verdict is None and response is not None and checkout.lets_pass():
        return response
    return Answer(checkout.verdict or Response(500), request, response, checkout.is_withheld())


def _of_the_work(checkout: RequestCheckout, error: BaseException) -> Exception:
    """What to tell of work that ended so. Raises `error` again where no work of ours was running."""
    if (
        checkout.payment is None
        or checkout.verdict is not None
        or checkout.finished
        or is_cancelled_from_outside(error)
    ):
        raise error
    if isinstance(error, Exception):
        return error
    return WorkInterrupted(f"the view raised {type(error).__name__}")


def _ends_more_than_the_work(error: BaseException) -> bool:
    return not isinstance(error, Exception | asyncio.CancelledError)
