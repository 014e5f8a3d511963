"""A cache that answers for failed work with the body of an earlier result, under a status of an error."""

import gzip
from collections.abc import Callable
from functools import wraps
from typing import Any

import flask
import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient
from werkzeug.test import Client as WSGIClient
from werkzeug.wrappers import Response as WSGIResponse

import faregate.asgi
import faregate.fastapi
import faregate.starlette
import faregate.wsgi
from faregate.checkout.checkout import SkipHandler
from faregate.emulator import Wallet
from faregate.flask import Faregate
from faregate.offers import offer
from faregate.paywall import Paywall
from tests import django_site
from tests.adapters.test_exception_answers import list_statuses
from tests.attacks.site import make_paywall

django_site.ready()

from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.test import Client as DjangoClient  # noqa: E402
from django.urls import path as django_path  # noqa: E402

import faregate.django  # noqa: E402
from tests.adapters.django_views import PAYWALL, project, read_statuses  # noqa: E402

RESULT = b"the body of a result that was paid for"
OWN = b"the database is away, and this is no result"
STATUS = 503
OFFER = offer("daily_report")

Zip = Callable[[bytes], bytes]
Ask = Callable[[dict[str, str]], Any]


class Cache:
    """What a seller's code keeps of results, and gives when work fails: it is away with every second call."""

    def __init__(self, pack: Zip) -> None:
        self._pack = pack
        self._calls = 0

    def work(self) -> bytes:
        """Return a result, or raise."""
        self._calls += 1
        if self._calls % 2 == 0:
            raise LookupError
        return RESULT

    @property
    def stale(self) -> bytes:
        return self._pack(RESULT)


def ask_asgi(app: Any) -> Ask:
    client = TestClient(app, "http://seller.example", raise_server_exceptions=False)
    return lambda headers: client.get("/sold", headers=headers)


def ask_wsgi(app: Any) -> Ask:
    client = WSGIClient(app)
    return lambda headers: client.get("/sold", headers=headers)


def sell_asgi(paywall: Paywall, cache: Cache) -> Ask:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await faregate.asgi.require_payment(scope, OFFER)
        try:
            answer = Response(cache.work())
        except LookupError:
            answer = Response(cache.stale, STATUS)
        await answer(scope, receive, send)

    return ask_asgi(faregate.asgi.PaywallMiddleware(app, paywall))


async def answer_starlette(request: Request, _error: Exception) -> Response:
    return Response(request.app.state.cache.stale, STATUS)


def sell_starlette(paywall: Paywall, cache: Cache) -> Ask:
    @faregate.starlette.paid("daily_report")
    async def report(_request: Request) -> Response:
        return Response(cache.work())

    app = Starlette(
        routes=[Route("/sold", report)],
        middleware=[Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)],
        exception_handlers={LookupError: answer_starlette},
    )
    app.state.cache = cache
    return ask_asgi(app)


def sell_fastapi(paywall: Paywall, cache: Cache) -> Ask:
    app = FastAPI(exception_handlers={LookupError: answer_starlette})
    app.state.cache = cache
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)

    @app.get("/sold", dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    def report() -> Response:
        return Response(cache.work())

    return ask_asgi(app)


def sell_wsgi(paywall: Paywall, cache: Cache) -> Ask:
    def app(environ: Any, start_response: Any) -> Any:
        faregate.wsgi.require_payment(environ, OFFER)
        try:
            answer = WSGIResponse(cache.work())
        except LookupError:
            answer = WSGIResponse(cache.stale, STATUS)
        return answer(environ, start_response)

    def stop(environ: Any, start_response: Any) -> Any:
        try:
            return app(environ, start_response)
        except SkipHandler:
            start_response("402 Stopped", [])
            return []

    return ask_wsgi(faregate.wsgi.PaywallMiddleware(stop, paywall))


def sell_flask(paywall: Paywall, cache: Cache) -> Ask:
    app, front = flask.Flask(__name__), Faregate()
    front.init_app(app, paywall)
    app.register_error_handler(LookupError, lambda _: flask.Response(cache.stale, STATUS))
    app.add_url_rule("/sold", "sold", front.paid("daily_report")(cache.work))
    return ask_wsgi(app)


def sell_flask_with_a_hook(paywall: Paywall, cache: Cache) -> Ask:
    app, front = flask.Flask(__name__), Faregate()
    front.init_app(app, paywall)
    app.config["PROPAGATE_EXCEPTIONS"] = False

    @app.after_request
    def give_stale(response: flask.Response) -> flask.Response:
        if response.status_code == 500:
            response.set_data(cache.stale)
            response.status_code = STATUS
        return response

    app.add_url_rule("/sold", "sold", front.paid("daily_report")(cache.work))
    return ask_wsgi(app)


def sell_flask_with_middleware(paywall: Paywall, cache: Cache) -> Ask:
    app, front = flask.Flask(__name__), Faregate()
    app.config["PROPAGATE_EXCEPTIONS"] = False
    run = app.wsgi_app

    def give_stale(environ: Any, start_response: Any) -> Any:
        answer = WSGIResponse.from_app(run, environ)
        if answer.status_code == 500:
            answer = WSGIResponse(cache.stale, STATUS)
        return answer(environ, start_response)

    app.wsgi_app = give_stale  # type: ignore[method-assign]
    front.init_app(app, paywall)
    app.add_url_rule("/sold", "sold", front.paid("daily_report")(cache.work))
    return ask_wsgi(app)


SELLERS = {
    "asgi": sell_asgi,
    "starlette": sell_starlette,
    "fastapi": sell_fastapi,
    "wsgi": sell_wsgi,
    "flask": sell_flask,
    "flask, a hook": sell_flask_with_a_hook,
    "flask, middleware": sell_flask_with_middleware,
}
PACKS: dict[str, Zip] = {"as it was": bytes, "compressed": gzip.compress}


def buy(ask: Ask) -> tuple[int, bytes]:
    unpaid = ask({})
    assert unpaid.status_code == 402
    answer = ask({"PAYMENT-SIGNATURE": Wallet().pay(unpaid.headers["payment-required"])})
    return answer.status_code, answer.content if hasattr(answer, "content") else answer.data


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
@pytest.mark.parametrize("seller", SELLERS)
def test_a_stale_result_does_not_leave_with_an_error(seller: str, pack: Zip) -> None:
    paywall = make_paywall()
    ask = SELLERS[seller](paywall, Cache(pack))
    assert buy(ask) == (200, RESULT)
    assert buy(ask) == (STATUS, b"")
    assert buy(ask) == (200, RESULT)
    assert list_statuses(paywall) == ["succeeded", "failed", "succeeded"]


@pytest.mark.parametrize("seller", SELLERS)
def test_an_error_of_its_own_leaves_whole(seller: str) -> None:
    ask = SELLERS[seller](make_paywall(), Cache(lambda _: OWN))
    assert [buy(ask) for _ in range(4)] == [(200, RESULT), (STATUS, OWN)] * 2


# Django

CACHE = Cache(bytes)
"""For views, which are made once: each test calls twice."""


class StaleMiddleware:
    """Answers exceptions of views, as middleware outside the paywall does."""

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        return self._get_response(request)

    def process_exception(self, _request: HttpRequest, _error: Exception) -> HttpResponse:
        return HttpResponse(CACHE.stale, status=STATUS)


@faregate.django.paid("daily_report")
def report(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(CACHE.work())


def keep_above(view: Any) -> Any:
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)  # type: ignore[no-any-return]
        except LookupError:
            return HttpResponse(CACHE.stale, status=STATUS)

    return answer


def keep_below(_request: HttpRequest) -> HttpResponse:
    try:
        return HttpResponse(CACHE.work())
    except LookupError:
        return HttpResponse(CACHE.stale, status=STATUS)


DJANGO: dict[str, tuple[Any, list[str]]] = {
    "middleware": (report, [f"{__name__}.StaleMiddleware", PAYWALL]),
    "a decorator": (keep_above(report), [PAYWALL]),
    "the view": (faregate.django.paid("daily_report")(keep_below), [PAYWALL]),
}


@pytest.mark.parametrize("seller", DJANGO)
def test_a_stale_result_does_not_leave_django_with_an_error(seller: str) -> None:
    view, middleware = DJANGO[seller]
    with project(django_path("sold", view), MIDDLEWARE=middleware):
        client = DjangoClient()
        ask: Ask = lambda headers: client.get("/sold", headers=headers)  # noqa: E731
        assert [buy(ask) for _ in range(2)] == [(200, RESULT), (STATUS, b"")]
        assert sorted(read_statuses()) == ["failed", "succeeded"]
