"""What has the wrong type or place fails where it is written, in words of the seller's own code."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from flask import Flask
from mcp.server import MCPServer
from starlette.applications import Starlette

from faregate import MemoryJournal, Offer, Paywall, asgi, fastapi, flask, mcp, starlette, wsgi
from faregate.errors import ConfigurationError
from faregate.offers import offer

REPORT = Offer("daily_report")
CHOSEN = offer(lambda _: "daily_report", among=("daily_report", "text_summary"))
ANY: Any = None


async def asgi_app(scope: Any, receive: Any, send: Any) -> None: ...


def wsgi_app(environ: Any, start_response: Any) -> list[bytes]:
    return []


def wrong(value: object) -> Any:
    return value


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAREGATE_BASE_URL", "emulator:")


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "wsgi: a name": (lambda: wsgi.require_payment({}, wrong("key")), "Offer('text_summary')"),
    "wsgi: wrong order": (
        lambda: wsgi.require_payment(wrong(REPORT), wrong({})),
        "the environ of the request",
    ),
    "wsgi: a request": (lambda: wsgi.require_payment(wrong(object()), REPORT), "not object, Offer"),
    "wsgi: ask": (lambda: wsgi.require_payment({}, REPORT, wrong("ask")), "not dict, Offer, str"),
    "wsgi: release": (lambda: wsgi.on_release({}, wrong("x")), "on_release(environ, function)"),
    "asgi: a name": (lambda: asyncio.run(asgi.require_payment({}, wrong("key"))), "Offer('text_summary')"),
    "asgi: wrong order": (lambda: asyncio.run(asgi.require_payment(wrong("key"), REPORT)), "the scope of"),
    "wsgi: a key for a paywall": (lambda: wsgi.PaywallMiddleware(wsgi_app, wrong("key")), "takes a Paywall"),
    "asgi: a key for a paywall": (lambda: asgi.PaywallMiddleware(asgi_app, wrong("key")), "takes a Paywall"),
    "asgi: the paywall first": (
        lambda: asgi.PaywallMiddleware(wrong(Paywall()), wrong(asgi_app)),
        "not Paywall",
    ),
    "asgi: a WSGI app": (lambda: asgi.PaywallMiddleware(wrong(wsgi_app)), "faregate.wsgi.PaywallMiddleware"),
    "asgi: Flask": (lambda: asgi.PaywallMiddleware(wrong(Flask("x"))), "faregate.wsgi.PaywallMiddleware"),
    "wsgi: FastAPI": (lambda: wsgi.PaywallMiddleware(wrong(FastAPI())), "faregate.asgi.PaywallMiddleware"),
    "refuse": (lambda: wsgi.PaywallMiddleware(wsgi_app, refuse=wrong(3)), "refuse is a list"),
    "a prefix": (lambda: wsgi.PaywallMiddleware(wsgi_app, refuse=[wrong(3)]), "A path prefix is a text"),
    "sweep_every": (lambda: asgi.PaywallMiddleware(asgi_app, sweep_every=wrong("60")), "sweep_every must be"),
    "drain_seconds": (
        lambda: asgi.PaywallMiddleware(asgi_app, drain_seconds=wrong("1")),
        "drain_seconds must",
    ),
    "fastapi: RequirePayment": (lambda: fastapi.RequirePayment(wrong("key")), "Write paid('text_summary')"),
    "flask: a key": (
        lambda: flask.Faregate().init_app(Flask("x"), wrong("key")),
        "init_app(app, Paywall(...))",
    ),
    "flask: exempt": (lambda: flask.Faregate().exempt(wrong("about")), "@paywall.exempt goes on a view"),
    "flask: routes": (lambda: flask.list_routes(wrong(FastAPI())), "a Flask app, not FastAPI"),
    "mcp: a key": (lambda: mcp.add_paywall(MCPServer("x"), wrong("key")), "add_paywall takes a Paywall"),
    "mcp: routes": (lambda: mcp.list_routes(wrong(3)), "an MCPServer or a low-level Server, not int"),
    "starlette: routes": (lambda: starlette.list_routes(wrong(3)), "an application or a router, not int"),
    "fastapi: routes": (lambda: fastapi.list_routes(wrong("x")), "an application or a router, not str"),
    "fastapi: openapi": (lambda: fastapi.add_openapi(wrong(3)), "add_openapi takes an application, not int"),
    "asgi: twice": (lambda: asgi.PaywallMiddleware(asgi.PaywallMiddleware(asgi_app)), "is added twice"),
    "wsgi: twice": (lambda: wsgi.PaywallMiddleware(wsgi.PaywallMiddleware(wsgi_app)), "application twice"),
    "starlette: an offer": (lambda: starlette.paid(wrong(REPORT)), "Write paid('daily_report'), with"),
    "flask: an offer": (lambda: flask.Faregate().paid(wrong(REPORT)), "Write paid('daily_report'), with"),
    "an offer that chooses": (lambda: mcp.paid(wrong(CHOSEN)), "Write paid(choose, among=...), with"),
    "environ": (lambda: Paywall(environ=wrong("x")), "environ is a mapping of variables"),
    "sweep: a text": (lambda: Paywall().sweep(wrong("x")), "1 or more, not 'x'"),
    "sweep: none": (lambda: asyncio.run(Paywall().asweep(0)), "1 or more, not 0"),
    "sweep: should_stop": (lambda: Paywall().sweep(1, wrong(True)), "should_stop is a function"),
    "a journal's class": (lambda: Paywall(journal=wrong(MemoryJournal)), "journal is a class"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_argument_is_named(name: str) -> None:
    call, says = MISTAKES[name]
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        call()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"paywall": "key"}, "takes a Paywall"),
        ({"allow_outside": Starlette}, "allow_outside is a list of middleware classes"),
    ],
)
def test_a_wrong_argument_of_starlettes_middleware_fails_the_start(arguments: Any, says: str) -> None:
    mistake = starlette.PaywallMiddleware(Starlette(), **arguments).mistake
    assert says in str(mistake)


@pytest.mark.parametrize(
    "options",
    [
        {"billable": ["200"]},
        {"billable": "200"},
        {"billable": frozenset[int]()},
        {"billable": {2000}},
        {"billable": {True}},
        {"max_result_bytes": "1"},
        {"max_work_seconds": 0},
        {"replay": "no"},
        {"asset": "EUR"},
    ],
    ids=str,
)
def test_an_offer_that_would_give_results_away_cannot_be_made(options: dict[str, Any]) -> None:
    """A result whose status is not billable leaves without a payment."""
    for make in (Offer, starlette.paid, fastapi.paid, flask.Faregate().paid):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            make("daily_report", **options)


def test_an_offer_takes_any_set_of_statuses() -> None:
    assert Offer("daily_report", billable=wrong([200, 201])).billable == frozenset((200, 201))


@pytest.mark.parametrize("sells", ["", 3, None])
def test_an_offer_sells_something(sells: Any) -> None:
    with pytest.raises(ConfigurationError, match="Say what is sold"):
        Offer(sells)
