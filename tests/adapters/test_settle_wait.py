"""A payment that settles soon is answered in the same request, on real servers."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from flask import Flask

from faregate.emulator import TEST_KEY, Emulator, SettlementRule, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.flask import Faregate
from faregate.merchant import backend
from faregate.paywall import Paywall
from faregate.starlette import PaywallMiddleware
from tests.adapters.asgi import Plain
from tests.servers.http import serving, serving_wsgi


def open_paywall(emulator: Emulator, **settings: Any) -> Paywall:
    transport: Any = EmbeddedTransport(emulator)
    return Paywall(
        base_url="http://service.example", api_key=TEST_KEY, environ={}, transport=transport, **settings
    )


@contextmanager
def serving_async(paywall: Paywall) -> Generator[str]:
    with serving(PaywallMiddleware(Plain(), paywall, offers={"/": "text_summary"}), lifespan="off") as url:
        yield url


@contextmanager
def serving_threads(paywall: Paywall) -> Generator[str]:
    app = Flask(__name__)
    faregate = Faregate()
    faregate.init_app(app, paywall)
    app.add_url_rule("/", view_func=faregate.paid("text_summary")(lambda: "paid content"))
    with serving_wsgi(app) as url:
        yield url


SERVERS = {"async": serving_async, "threads": serving_threads}


def buy(url: str) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=30) as client:
        asked = client.get(url)
        return client.get(url, headers={"PAYMENT-SIGNATURE": Wallet().pay(asked.headers["PAYMENT-REQUIRED"])})


@pytest.mark.parametrize("kind", SERVERS)
def test_the_payer_of_a_slow_settlement_gets_the_result_at_once(kind: str) -> None:
    emulator = Emulator()
    emulator.settle_after("*", SettlementRule(after_seconds=1))
    with SERVERS[kind](open_paywall(emulator)) as url:
        bought = buy(url)
    assert (bought.status_code, bought.text) == (200, "paid content")
    assert bought.headers["PAYMENT-RESPONSE"]


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        (SettlementRule(manual=True), {"settle_wait": 0.5}),
        (SettlementRule(after_seconds=1), {"settle_wait": 0}),
        (SettlementRule(manual=True), {"settle_wait": 30, "max_request_seconds": 15, "timeout": 9.4}),
    ],
    ids=["too slow", "off", "no time left in the request"],
)
def test_otherwise_the_payer_is_told_to_come_back(
    kind: str, rule: SettlementRule, settings: dict[str, Any]
) -> None:
    emulator = Emulator()
    emulator.settle_after("*", rule)
    with SERVERS[kind](open_paywall(emulator, **settings)) as url:
        assert buy(url).status_code == 202


@pytest.mark.parametrize("kind", SERVERS)
def test_only_so_many_requests_wait_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_MAX_WAITING_THREADS", 2)
    monkeypatch.setattr(backend, "_MAX_WAITING_TASKS", 2)
    emulator = Emulator()
    emulator.settle_after("*", SettlementRule(after_seconds=1))
    with SERVERS[kind](open_paywall(emulator)) as url, ThreadPoolExecutor(6) as payers:
        statuses = [answer.status_code for answer in payers.map(buy, [url] * 6)]
    assert set(statuses) == {200, 202}


@pytest.mark.parametrize(
    ("base_url", "given", "seconds"),
    [("emulator:", {}, 0), ("emulator:", {"settle_wait": 3}, 3), ("http://service.example", {}, 3)],
)
def test_the_emulator_shows_202_unless_it_is_asked_to_wait(
    base_url: str, given: dict[str, Any], seconds: float
) -> None:
    paywall = Paywall(base_url=base_url, api_key="svc_test_emulator", environ={}, **given)
    assert paywall.settings.settle_wait == seconds
