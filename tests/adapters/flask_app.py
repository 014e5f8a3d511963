"""A Flask application that sells, and requests to it."""

from typing import Any

from flask import (
    Flask,
)
from werkzeug.test import TestResponse

from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.flask import Faregate, PayingClient
from faregate.merchant.client import MerchantClient
from faregate.paywall import Paywall

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
        paywall.init_app(app, Paywall(public_url="https://seller.example", environ={}, **service))

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
    result = seller.app.test_cli_runner().invoke(args=["faregate", *arguments])
    return result.exit_code, result.output
