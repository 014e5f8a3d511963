"""What is sold under a name that the service does not know: found at the start, or logged with its remedy."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from flask import Flask
from mcp.client import Client as MCPClient
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import faregate.asgi
import faregate.fastapi
import faregate.flask
import faregate.mcp
import faregate.starlette
import faregate.wsgi
from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.transports import EmbeddedTransport
from faregate.errors import ConfigurationError
from faregate.paywall import Paywall
from faregate.testing.emulator import use_emulator
from tests.adapters.asgi import Plain
from tests.adapters.django_views import project

import faregate.django  # isort: skip  # Django is set up by `django_views`
from django.core import checks  # isort: skip
from django.http import HttpResponse  # isort: skip
from django.test import Client, override_settings  # isort: skip
from django.urls import path  # isort: skip

MISSPELT = "daily_reprot"
MESSAGE = r"Nothing is sold as 'daily_reprot' .* Did you mean daily_report\?"


def in_process() -> Paywall:
    return Paywall(base_url="emulator:", environ={})


def remote() -> Paywall:
    transport: Any = EmbeddedTransport(Emulator())
    service: Any = {"base_url": "https://service.example", "api_key": TEST_KEY, "transport": transport}
    return Paywall(public_url="https://seller.example", environ={}, **service)


def sell_starlette(paywall: Paywall) -> Any:
    def sell(name: str) -> Any:
        @faregate.starlette.paid(name)
        async def report(_request: Request) -> PlainTextResponse:
            return PlainTextResponse("paid content")

        return report

    layers = [Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)]
    routes = [Route("/paid", sell("daily_report")), Route("/other", sell(MISSPELT))]
    return Starlette(routes=routes, middleware=layers)


def sell_fastapi(paywall: Paywall) -> Any:
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    for place, name in (("/paid", "daily_report"), ("/other", MISSPELT)):
        app.get(place, dependencies=[Depends(faregate.fastapi.paid(name))])(lambda: "paid content")
    return app


PREFIXES = {"/paid": "daily_report", "/other": MISSPELT}


def sell_asgi(paywall: Paywall) -> Any:
    return faregate.asgi.PaywallMiddleware(Plain(), paywall, offers=PREFIXES)


ASGI = [sell_starlette, sell_fastapi, sell_asgi]


def ask_asgi(make: Callable[[Paywall], Any]) -> Callable[[Paywall, str], int]:
    return lambda paywall, place: TestClient(make(paywall)).get(place).status_code


def make_wsgi(paywall: Paywall) -> Any:
    def app(_environ: Any, _start: Any) -> Any:
        raise AssertionError("ran")

    return faregate.wsgi.PaywallMiddleware(app, paywall, offers=PREFIXES)


def make_flask(paywall: Paywall) -> Any:
    app, extension = Flask(__name__), faregate.flask.Faregate()
    extension.init_app(app, paywall)
    for place, name in PREFIXES.items():
        app.get(place, endpoint=name)(extension.paid(name)(lambda: "paid content"))
    return app


def ask_wsgi(make: Callable[[Paywall], Any]) -> Callable[[Paywall, str], int]:
    from werkzeug.test import Client as WSGIClient

    return lambda paywall, place: WSGIClient(make(paywall)).get(place).status_code


@pytest.mark.parametrize("make", ASGI)
def test_a_start_fails_where_the_service_is_in_this_process(make: Any) -> None:
    app = make(in_process())
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=MESSAGE), TestClient(app):
            pass
    with pytest.raises(ConfigurationError, match=MESSAGE):
        TestClient(app).get("/nothing")


@pytest.mark.parametrize("make", [make_wsgi, make_flask])
def test_every_request_fails_where_there_is_no_start(make: Any) -> None:
    from werkzeug.test import Client as WSGIClient

    client = WSGIClient(make(in_process()))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=MESSAGE):
            client.get("/nothing")


def test_django_says_it_in_its_checks_and_with_every_request() -> None:
    def sell(name: str) -> Any:
        return faregate.django.paid(name)(lambda _request: HttpResponse(b"paid content"))

    routes = (path("paid", sell("daily_report")), path("other", sell(MISSPELT)))
    own = {"FAREGATE": {"BASE_URL": "emulator:"}, "ROOT_URLCONF": routes}
    with override_settings(MIDDLEWARE=["faregate.django.PaywallMiddleware"], **own):
        [found] = [one for one in checks.run_checks() if one.id == "faregate.E006"]
        assert MISSPELT in found.msg
        client = Client()
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=MESSAGE):
                client.get("/nothing")


@pytest.mark.anyio
async def test_a_server_of_tools_does_not_start() -> None:
    server = MCPServer("shop")
    faregate.mcp.add_paywall(server, in_process())

    @server.tool()
    @faregate.mcp.paid(MISSPELT)
    async def report() -> str:
        return "paid content"

    with pytest.RaisesGroup(
        pytest.RaisesExc(ConfigurationError, match=MESSAGE), allow_unwrapped=True, flatten_subgroups=True
    ):
        async with MCPClient(server):
            pass


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_the_emulator_of_a_test_may_publish_later() -> None:
    emulator = Emulator()
    with use_emulator(emulator), TestClient(sell_starlette(in_process())) as client:
        assert client.get("/paid").status_code == 402
        assert client.get("/other").status_code == 502


@pytest.fixture(params=[*map(ask_asgi, ASGI), ask_wsgi(make_wsgi), ask_wsgi(make_flask)])
def ask(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_with_another_service_it_is_logged_once_after_the_first_contact(
    ask: Any, caplog: pytest.LogCaptureFixture
) -> None:
    paywall = remote()
    assert list_errors(caplog) == []
    for _ in range(2):
        assert ask(paywall, "/paid") == 402
    [line] = list_errors(caplog)
    assert MISSPELT in line
    assert "Did you mean daily_report?" in line
    assert "answered with 502" in line
    assert "\n" not in line
    assert ask(paywall, "/other") == 502
    assert len(list_errors(caplog)) == 1


def test_with_django_and_another_service_it_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def sell(name: str) -> Any:
        return faregate.django.paid(name)(lambda _request: HttpResponse(b"paid content"))

    with project(path("paid", sell("daily_report")), path("other", sell(MISSPELT))):
        for _ in range(2):
            assert Client().get("/paid").status_code == 402
        [line] = list_errors(caplog)
        assert MISSPELT in line


def list_errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage()
        for one in caplog.records
        if one.name == "faregate.settings" and one.levelno == logging.ERROR
    ]
