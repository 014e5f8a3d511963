"""A redirect to the same path with a slash at its end is no result: its payer would pay for it, and again."""

from collections.abc import Callable
from typing import Any

import flask
import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.emulator import Wallet
from faregate.offers import offer
from faregate.wsgi import PaywallMiddleware as WSGIMiddleware
from tests import django_site
from tests.adapters.django_views import COMMON, PAYWALL, project
from tests.attacks.site import make_paywall, on_uvicorn
from tests.servers.http import serving_wsgi

django_site.ready()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

Serve = Callable[[], Any]
SOLD = {"/sold": offer("daily_report", billable=frozenset((200, 301, 307, 308)))}


def starlette_app() -> Any:
    app = Starlette(routes=[Route("/sold/", lambda _request: PlainTextResponse("content"))])
    return on_uvicorn(ASGIMiddleware(app, make_paywall(), offers=SOLD))


def flask_app() -> Any:
    app = flask.Flask(__name__)
    app.add_url_rule("/sold/", view_func=lambda: "content", endpoint="sold")
    return serving_wsgi(WSGIMiddleware(app, make_paywall(), offers=SOLD))


@pytest.mark.parametrize("serve", [starlette_app, flask_app], ids=["starlette", "flask"])
def test_a_redirect_to_the_slash_is_not_charged(serve: Serve) -> None:
    with serve() as url, httpx.Client(base_url=url, trust_env=False, timeout=20) as http:
        _buy(http)


def test_a_redirect_of_django_to_the_slash_is_not_charged() -> None:
    routes = path("sold/", lambda _request: HttpResponse("content"))
    sold = {"OFFERS": SOLD}
    with (
        project(routes, FAREGATE=sold, MIDDLEWARE=[COMMON, PAYWALL]),
        serving_wsgi(get_wsgi_application()) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=20) as http,
    ):
        _buy(http)


def _buy(http: httpx.Client) -> None:
    wallet = Wallet()
    charged = list[str]()
    for target in ("/sold", "/sold/"):
        unpaid = http.get(target)
        if unpaid.status_code == 402:
            proof = wallet.pay(unpaid.headers["payment-required"])
            answer = http.get(target, headers={"PAYMENT-SIGNATURE": proof})
            charged += [target] if "payment-response" in answer.headers else []
    assert (answer.status_code, answer.text) == (200, "content")
    assert charged == ["/sold/"]
