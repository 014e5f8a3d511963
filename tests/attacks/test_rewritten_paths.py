"""Paid prefixes behind middleware that changes the path, and letters that a router takes for others."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from faregate.asgi import PaywallMiddleware
from faregate.emulator import Wallet
from faregate.flask import Faregate
from tests import django_site
from tests.adapters.asgi import Plain, a_paywall, ask
from tests.attacks.site import make_paywall

django_site.ready()

from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

from faregate.django import paid  # noqa: E402
from tests.adapters.django_views import PAYWALL, served  # noqa: E402

CONTENT = "paid content"
RULES = pytest.mark.parametrize(
    ("rules", "status"), [({"OFFERS": {"/files": "daily_report"}}, 402), ({"REFUSE": ["/files"]}, 403)]
)


# Letters


@pytest.mark.parametrize("letter", ["\u0130", "\u0131", "\u017f", "\u212a"])
def test_a_letter_that_a_router_without_case_takes_for_another_is_sold(letter: str) -> None:
    [prefix] = [one for one in ("/i", "/s", "/k") if re.fullmatch(one, f"/{letter}", re.IGNORECASE)]
    plain = Plain()
    app = PaywallMiddleware(plain, a_paywall(), offers={prefix: "daily_report"})
    assert (ask(app, f"/{letter}/x")[0]["status"], plain.runs) == (402, 0)


# Flask: middleware between the paywall and the app


def strip_prefix(app: Any, header: str = "HTTP_X_SCRIPT_NAME") -> Any:
    """What Flask's users put behind a proxy, which trusts a header of anybody."""

    def run(environ: dict[str, Any], start: Any) -> Any:
        prefix = environ.get(header, "")
        if prefix and environ["PATH_INFO"].startswith(prefix):
            environ["SCRIPT_NAME"] = prefix
            environ["PATH_INFO"] = environ["PATH_INFO"].removeprefix(prefix)
        return app(environ, start)

    return run


def strip_tenant(app: Any) -> Any:
    return strip_prefix(app, "HTTP_X_TENANT")


def mount(app: Any) -> Any:
    return DispatcherMiddleware(app, {"/shop": app})


def make_flask(around: Callable[[Any], Any], **rules: Any) -> Flask:
    app = Flask(__name__)
    app.config.update({f"FAREGATE_{name}": value for name, value in rules.items()})
    app.wsgi_app = around(app.wsgi_app)  # type: ignore[method-assign]
    Faregate().init_app(app, make_paywall())
    app.add_url_rule("/files/x", "files", lambda: CONTENT)
    app.add_url_rule("/free", "free", lambda: "free")
    return app


@RULES
@pytest.mark.parametrize("around", [strip_tenant, mount])
def test_flask_serves_nothing_below_a_prefix_by_another_path(
    around: Callable[[Any], Any], rules: dict[str, Any], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(make_flask(around, **rules))
    headers = {"X-Tenant": "/shop"}
    answer = client.get("/shop/files/x", headers=headers)
    assert (answer.status_code, CONTENT in answer.text) == (500, False)
    assert "changed the path /shop/files/x" in caplog.text or "/shop/files/x, which is sold" in caplog.text
    assert client.get("/shop/free", headers=headers).text == "free"
    assert client.get("/files/x").status_code == status


@RULES
def test_flask_reads_a_prefix_without_the_script_name_of_a_header(rules: dict[str, Any], status: int) -> None:
    client, headers = Client(make_flask(strip_prefix, **rules)), {"X-Script-Name": "/shop"}
    unpaid = client.get("/shop/files/x", headers=headers)
    assert unpaid.status_code == status
    assert client.get("/shop/free", headers=headers).text == "free"
    if status == 402:
        proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
        assert client.get("/shop/files/x", headers={**headers, "PAYMENT-SIGNATURE": proof}).text == CONTENT


def test_flask_serves_a_prefix_of_one_price_by_no_path_of_another(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(make_flask(strip_tenant, OFFERS={"/shop": "text_summary", "/files": "daily_report"}))
    headers = {"X-Tenant": "/shop"}
    unpaid = client.get("/shop/files/x", headers=headers)
    proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
    answer = client.get("/shop/files/x", headers={**headers, "PAYMENT-SIGNATURE": proof})
    assert (answer.status_code, CONTENT in answer.text) == (500, False)
    assert "Put it around app.wsgi_app after Faregate(app)" in caplog.text


def test_flask_serves_no_path_of_two_prices_by_the_script_name_of_a_header() -> None:
    client = Client(make_flask(strip_prefix, OFFERS={"/shop": "text_summary", "/files": "daily_report"}))
    answer = client.get("/shop/files/x", headers={"X-Script-Name": "/shop"})
    assert (answer.status_code, CONTENT in answer.text) == (400, False)


def test_flask_sells_a_prefix_below_which_an_app_is_mounted() -> None:
    client = Client(make_flask(mount, OFFERS={"/shop/files": "daily_report"}))
    unpaid = client.get("/shop/files/x")
    proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
    assert client.get("/shop/files/x", headers={"PAYMENT-SIGNATURE": proof}).text == CONTENT


# Django: middleware before the paywall, which comes last


class StripTenant:
    """Has Django route `/acme/files/x` as `/files/x`. The environ keeps the path that was asked for."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        request.path_info = request.path_info.removeprefix("/acme")
        return self.get_response(request)


STRIPPED = [f"{__name__}.StripTenant", PAYWALL]


def answer(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(CONTENT)


@RULES
@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_django_reads_the_path_that_it_routes(interface: str, rules: dict[str, Any], status: int) -> None:
    patterns = (path("files/x", answer), path("free", lambda _: HttpResponse("free")))
    with served(interface, *patterns, FAREGATE=rules, MIDDLEWARE=STRIPPED) as site:
        assert [site.ask(one).status_code for one in ("/files/x", "/acme/files/x")] == [status, status]
        assert site.ask("/acme/free").text == "free"
        if status == 402:
            assert site.buy("/acme/files/x").text == CONTENT


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_django_sells_a_view_whose_path_was_changed_before_the_paywall(interface: str) -> None:
    with served(interface, path("report", paid("daily_report")(answer)), MIDDLEWARE=STRIPPED) as site:
        assert site.buy("/acme/report").text == CONTENT
        assert site.statuses == ["succeeded"]


def test_django_sells_what_is_below_a_prefix_before_the_path_was_changed() -> None:
    settings: dict[str, Any] = {"FAREGATE": {"OFFERS": {"/acme": "daily_report"}}, "MIDDLEWARE": STRIPPED}
    with served("wsgi", path("files/x", answer), **settings) as site:
        assert site.ask("/acme/files/x").status_code == 402
        assert site.ask("/files/x").text == CONTENT
