"""The events of a paywall as a signal of Flask and of Django."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask

import faregate.flask
from faregate.events import Event
from faregate.paywall import Paywall
from tests.adapters.django_views import project
from tests.adapters.flask_app import Seller

import faregate.django  # isort: skip  # Django is set up by `django_views`
from django.http import HttpRequest, HttpResponse  # isort: skip
from django.test import Client  # isort: skip
from django.urls import path  # isort: skip

from faregate.django.conf import get_config
from faregate.emulator import Wallet

SALE = ["Refused", "Authorized", "Worked", "Settled", "Released"]
Buy = Callable[[], bytes]


@contextmanager
def sell_with_flask() -> Generator[tuple[Buy, Paywall]]:
    seller = Seller(Flask("seller"))
    seller.sells(lambda: "paid content", endpoint="report")
    yield lambda: seller.buy("/paid").data, seller.app.extensions["faregate"].paywall


@contextmanager
def sell_with_django() -> Generator[tuple[Buy, Paywall]]:
    @faregate.django.paid("daily_report")
    def report(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(b"paid content")

    def buy() -> bytes:
        client = Client()
        proof = Wallet().pay(client.get("/report")["PAYMENT-REQUIRED"])
        return bytes(client.get("/report", headers={"payment-signature": proof}).content)

    with project(path("report", report), ALLOWED_HOSTS=["*"]):
        yield buy, get_config().paywall


@pytest.fixture(params=["flask", "django"])
def signal(request: pytest.FixtureRequest) -> Any:
    return {"flask": faregate.flask, "django": faregate.django}[request.param].payment_event


@pytest.fixture
def shop(signal: Any) -> Generator[tuple[Buy, Paywall]]:
    sell = sell_with_flask if signal is faregate.flask.payment_event else sell_with_django
    with sell() as shop:
        yield shop


@contextmanager
def connected(signal: Any, *receivers: Callable[..., None]) -> Generator[None]:
    for receiver in receivers:
        signal.connect(receiver)
    yield
    for receiver in receivers:
        signal.disconnect(receiver)


def test_a_receiver_gets_each_event_of_a_sale(signal: Any, shop: tuple[Buy, Paywall]) -> None:
    buy, _ = shop
    heard: list[Event] = []

    def hear(sender: Any, event: Event, **_: Any) -> None:
        heard.append(event)

    with connected(signal, hear):
        assert buy() == b"paid content"
    assert [type(event).__name__ for event in heard] == SALE
    assert buy() == b"paid content"
    assert len(heard) == len(SALE)


def test_a_receiver_that_raises_changes_no_sale_and_is_logged(
    signal: Any, shop: tuple[Buy, Paywall], caplog: pytest.LogCaptureFixture
) -> None:
    buy, _ = shop
    heard: list[Event] = []

    def fail(sender: Any, event: Event, **_: Any) -> None:
        raise ZeroDivisionError("a receiver that raises")

    def hear(sender: Any, event: Event, **_: Any) -> None:
        heard.append(event)

    with connected(signal, fail, hear):
        assert buy() == b"paid content"
    assert [type(event).__name__ for event in heard] == SALE
    failed = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(failed) >= len(SALE)
    assert all(record.exc_info for record in failed)


def test_nobody_is_listening_where_no_receiver_is_connected(signal: Any, shop: tuple[Buy, Paywall]) -> None:
    _, paywall = shop
    assert not paywall.is_observed

    def hear(sender: Any, event: Event, **_: Any) -> None:
        pass

    with connected(signal, hear):
        assert paywall.is_observed
    assert not paywall.is_observed


def test_apps_that_share_a_paywall_send_each_event_once() -> None:
    paywall, extension = Paywall(base_url="emulator:", environ={}), faregate.flask.Faregate()
    heard: list[tuple[Any, Event]] = []
    apps = [Flask("one"), Flask("two")]
    for app in apps:
        extension.init_app(app, paywall)
        app.add_url_rule("/report", view_func=extension.paid("daily_report")(lambda: "paid content"))

    def hear(sender: Any, event: Event) -> None:
        heard.append((sender, event))

    with connected(faregate.flask.payment_event, hear):
        assert apps[1].test_client().get("/report", base_url="https://shop.example").status_code == 402
    assert [(sender, type(event).__name__) for sender, event in heard] == [(paywall, "Refused")]
