"""A price that is said while a request is served asks nobody for a payment: the answer is withheld."""

import asyncio
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
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
from faregate.wsgi import require_payment as require_payment_wsgi
from tests import django_site
from tests.adapters.django_views import project
from tests.attacks.content import Content
from tests.attacks.report import figures
from tests.attacks.site import make_paywall

django_site.ready()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse  # noqa: E402
from django.test import AsyncClient, Client  # noqa: E402
from django.urls import path  # noqa: E402

from faregate.django import paid  # noqa: E402

REPORT = offer("daily_report")
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


# After the response began


def stream_asgi(content: Content) -> tuple[bytes, object]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"free", "more_body": True})
        for more in (True, False):
            with suppress(ConfigurationError):
                await require_payment(scope, REPORT)
            with suppress(ConfigurationError):
                await send(
                    {"type": "http.response.body", "body": content.mark("body").encode(), "more_body": more}
                )

    return _collect_asgi(ASGIMiddleware(app, make_paywall()))


def _collect_asgi(app: Any) -> tuple[bytes, object]:
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "/sold", "headers": [], "query_string": b""}
    try:
        asyncio.run(app(scope, receive, send))
    except ConfigurationError as error:
        return b"".join(sent), error
    return b"".join(sent), None


def _collect_wsgi(app: Any) -> tuple[bytes, object]:
    sent: list[bytes] = []
    environ = werkzeug.test.create_environ("/sold")
    try:
        body = app(environ, lambda status, headers, error=None: sent.append)
        try:
            sent.extend(body)
        finally:
            if hasattr(body, "close"):
                body.close()
    except ConfigurationError as error:
        return b"".join(sent), error
    return b"".join(sent), None


def stream_wsgi(content: Content) -> tuple[bytes, object]:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"free"
        with suppress(ConfigurationError):
            require_payment_wsgi(environ, REPORT)
        yield content.mark("body").encode()

    return _collect_wsgi(WSGIMiddleware(app, make_paywall()))


def write_wsgi(content: Content) -> tuple[bytes, object]:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        write = start_response("200 OK", [])
        write(b"free")
        with suppress(ConfigurationError):
            require_payment_wsgi(environ, REPORT)
        with suppress(ConfigurationError):
            write(content.mark("body").encode())
        return []

    return _collect_wsgi(WSGIMiddleware(app, make_paywall()))


def stream_flask(content: Content) -> tuple[bytes, object]:
    app = flask.Flask(__name__)
    paywall = Faregate()
    paywall.init_app(app, make_paywall())
    views = SimpleNamespace(sold=paywall.paid("daily_report")(lambda: content.mark("body")))

    @app.get("/sold")
    def stream() -> Any:
        def chunks() -> Iterator[str]:
            yield "free"
            with suppress(ConfigurationError):
                views.sold()
            yield content.mark("body")

        return flask.Response(flask.stream_with_context(chunks()))

    return _collect_wsgi(app)


def stream_django(content: Content) -> tuple[bytes, object]:
    views = SimpleNamespace(sold=paid("daily_report")(lambda request: HttpResponse(content.mark("body"))))

    def stream(request: HttpRequest) -> StreamingHttpResponse:
        def chunks() -> Iterator[str]:
            yield "free"
            with suppress(ConfigurationError):
                views.sold(request)
            yield content.mark("body")

        return StreamingHttpResponse(chunks())

    with project(path("sold", stream)):
        return _collect_wsgi(get_wsgi_application())


STREAMS = [stream_asgi, stream_wsgi, write_wsgi, stream_flask, stream_django]


@pytest.mark.parametrize("stream", STREAMS)
def test_a_price_in_the_middle_of_a_response_cuts_it(
    stream: Callable[[Content], tuple[bytes, object]],
) -> None:
    """The application catches what is raised, and goes on."""
    content = Content()
    sent, error = stream(content)
    figures.count("prices in the middle of a response", content.found_in([sent]))
    assert sent == b"free"
    assert isinstance(error, ConfigurationError)
