"""A Flask application that sells, and requests to it."""

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Flask
from flask.views import MethodView
from werkzeug.test import TestResponse

from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.flask import Faregate, PayingClient
from faregate.merchant.client import MerchantClient
from faregate.paywall import Paywall
from tests.support.command_words import ask_for_text

CONTENT = b"paid content"
paywall = Faregate()


class Seller:
    """A Flask app behind the paywall, the service it sells through, and a client that can pay."""

    def __init__(self, app: Flask, **options: Any) -> None:
        self.app = app
        self.emulator = Emulator()
        transport: Any = EmbeddedTransport(self.emulator)
        service: Any = {"base_url": "http://service.example", "api_key": TEST_KEY, "transport": transport}
        self.service = MerchantClient(**service)
        self.runs: list[str] = []
        app.secret_key = "secret"
        app.test_client_class = PayingClient
        service |= options
        paywall.init_app(
            app, Paywall(public_url="https://seller.example", environ={}, settle_wait=0, **service)
        )

    def ask(self, path: str, **options: Any) -> TestResponse:
        client = self.app.test_client()
        return client.open(path, buffered=True, **options)

    def buy(self, path: str, **options: Any) -> TestResponse:
        return self.ask(path, pay=True, **options)

    def proof(self, path: str) -> dict[str, str]:
        return {"PAYMENT-SIGNATURE": Wallet().pay(self.ask(path).headers["PAYMENT-REQUIRED"])}

    @property
    def statuses(self) -> list[str]:
        return [transaction.status or "" for transaction in self.service.iter_transactions()]

    def sells(self, view: Any, path: str = "/paid", **options: Any) -> None:
        self.app.add_url_rule(path, view_func=paywall.paid("daily_report")(view), **options)


def run(seller: Seller, *arguments: str) -> tuple[int, str]:
    result = seller.app.test_cli_runner().invoke(args=["faregate", *ask_for_text(arguments)])
    return result.exit_code, result.output


def content() -> Callable[[], bytes]:
    """A view of its own for each place: a function that is sold is never routed without its price."""

    def content() -> bytes:
        return CONTENT

    return content


def is_sold(seller: Seller, path: str, method: str = "GET") -> bool:
    """402 without the content, then the content for money."""
    unpaid, paid = seller.ask(path, method=method), seller.buy(path, method=method)
    assert CONTENT not in unpaid.data
    return (unpaid.status_code, paid.data, "PAYMENT-RESPONSE" in paid.headers) == (402, CONTENT, True)


class ByMethod(MethodView):
    @paywall.paid("daily_report")
    def get(self) -> bytes:
        return CONTENT

    @paywall.paid("text_summary")
    async def post(self) -> bytes:
        return CONTENT

    def delete(self) -> str:
        return "free"


class ByDecorators(MethodView):
    decorators = [paywall.paid("daily_report")]  # noqa: RUF012

    def get(self) -> bytes:
        return CONTENT

    def post(self) -> bytes:
        return CONTENT


def weather() -> tuple[Blueprint, Blueprint]:
    """A blueprint in a blueprint, each with a view at `/view` and one that is exempt at `/open`."""
    outer, inner = Blueprint("outer", "outer"), Blueprint("inner", "inner", url_prefix="/inner")
    for one in (outer, inner):
        one.add_url_rule("/view", view_func=content(), endpoint="view")
        one.add_url_rule("/open", view_func=paywall.exempt(lambda: "open"), endpoint="open")
    outer.register_blueprint(inner)
    return outer, inner
