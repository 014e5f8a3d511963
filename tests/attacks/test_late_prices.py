"""A price that is said while a request is served asks nobody for a payment: the answer is withheld."""

import asyncio
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flask
import pytest
import werkzeug.test
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.asgi import require_payment
from faregate.errors import ConfigurationError
from faregate.flask import Faregate
from faregate.offers import offer
from faregate.wsgi import PaywallMiddleware as WSGIMiddleware
from tests import django_site
from tests.adapters.django_views import project
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall

django_site.ready()

from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.test import AsyncClient, Client  # noqa: E402
from django.urls import path  # noqa: E402

from faregate.django import paid  # noqa: E402

SENTENCE = "was created while a request was running"
Make = Callable[[], object]
"""Called by the handler before it answers."""


def ask_flask(content: Content, make: Make) -> Iterator[bytes]:
    app = flask.Flask(__name__)
    Faregate().init_app(app, make_paywall())
    app.testing = True

    @app.get("/sold")
    def sold() -> str:
        make()
        return content.mark("body")

    while True:
        yield app.test_client().get("/sold").data


def ask_wsgi(content: Content, make: Make) -> Iterator[bytes]:
    def app(_environ: Any, start_response: Any) -> list[bytes]:
        make()
        start_response("200 OK", [])
        return [content.mark("body").encode()]

    while True:
        yield werkzeug.test.Client(WSGIMiddleware(app, make_paywall())).get("/sold").data


def ask_asgi(content: Content, make: Make) -> Iterator[bytes]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        make()
        await PlainTextResponse(content.mark("body"))(Request(scope).scope, receive, send)

    while True:
        yield TestClient(ASGIMiddleware(app, make_paywall())).get("/sold").content


def ask_django(content: Content, make: Make) -> Iterator[bytes]:
    def sold(_request: HttpRequest) -> HttpResponse:
        make()
        return HttpResponse(content.mark("body"))

    while True:
        with project(path("sold", sold)):
            yield Client().get("/sold").content


APPS = {"flask": ask_flask, "wsgi": ask_wsgi, "asgi": ask_asgi, "django": ask_django}
WAYS: dict[str, Make] = {
    "offer": lambda: offer("daily_report"),
    "Faregate.paid": lambda: Faregate().paid("daily_report")(lambda: None),
    "paid of Django": lambda: paid("daily_report")(lambda request: None),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("app", APPS)
def test_an_offer_that_is_made_with_each_request_gives_nothing_away(app: str, way: str) -> None:
    content = Content()
    asked = APPS[app](content, WAYS[way])
    with pytest.raises(ConfigurationError, match=SENTENCE):
        figures.count("offers made with a request", content.found_in([next(asked)]))


def test_nor_with_an_async_view_of_django() -> None:
    content = Content()

    async def sold(_request: HttpRequest) -> HttpResponse:
        paid("daily_report")
        return HttpResponse(content.mark("body"))

    with project(path("sold", sold)), pytest.raises(ConfigurationError, match=SENTENCE):
        asyncio.run(AsyncClient().get("/sold"))


@pytest.mark.parametrize("app", APPS)
def test_a_module_with_prices_may_be_imported_with_a_request(
    app: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Django imports the routes of a project with the first one."""
    (tmp_path / "priced_later.py").write_text("from faregate.offers import offer\n\noffer('daily_report')\n")
    monkeypatch.syspath_prepend(tmp_path)
    content = Content()
    try:
        answer = next(APPS[app](content, lambda: importlib.import_module("priced_later")))
    finally:
        sys.modules.pop("priced_later", None)
    assert answer == content.mark("body").encode()


def test_a_payment_that_nobody_awaits_gives_nothing_away() -> None:
    """A forgotten `await` is a coroutine that never runs, and Python only warns."""
    content, report, left = Content(), offer("daily_report"), []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        left.append(require_payment(scope, report))
        await PlainTextResponse(content.mark("body"))(scope, receive, send)

    client = TestClient(ASGIMiddleware(app, make_paywall()), raise_server_exceptions=False)
    answers = [client.get("/sold"), client.get("/sold", headers={"PAYMENT-SIGNATURE": "eyJ4IjoxfQ=="})]
    for coroutine in left:
        coroutine.close()
    assert [answer.status_code for answer in answers] == [502, 502]
    figures.count("payments that nobody awaits", content.found_in([answer.content for answer in answers]))
    with pytest.raises(ConfigurationError, match=r"write await require_payment\(\.\.\.\)"):
        TestClient(ASGIMiddleware(app, make_paywall())).get("/sold")
    left[-1].close()
