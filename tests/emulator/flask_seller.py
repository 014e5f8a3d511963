"""A Flask app that sells one report over the emulator, and its one payer."""

from typing import Any

import httpx
from flask import Flask

from faregate.emulator import TEST_KEY, Wallet
from faregate.flask import Faregate
from faregate.paywall import Paywall
from tests.emulator.seller import ApiClient


class FlaskSeller:
    """`payer` is a test payer's name. It always comes with the same payment."""

    def __init__(self, api: ApiClient, payer: str, **options: Any) -> None:
        self.runs = 0
        app, selling = Flask(__name__), Faregate()
        self._api = api
        self._paywall = Paywall(
            api_key=TEST_KEY,
            base_url=str(api.http.base_url),
            public_url="https://s.example",
            environ={},
            settle_wait=0,
            **options,
        )
        selling.init_app(app, self._paywall)

        @app.get("/report")
        @selling.paid("daily_report")
        def report() -> dict[str, str]:
            self.runs += 1
            return {"report": "Sunny."}

        self._http = httpx.Client(transport=httpx.WSGITransport(app), base_url="http://seller")
        self.wallet = Wallet.test(payer, clock=api.clock)
        self.before = self._balance()
        self.proof = self.wallet.pay(self._http.get("/report").headers["payment-required"])

    def visit(self) -> httpx.Response:
        return self._http.get("/report", headers={"PAYMENT-SIGNATURE": self.proof})

    @property
    def charged(self) -> int:
        return self.before - self._balance()

    def _balance(self) -> int:
        return self._api.service.balance(self.wallet.address)

    def close(self) -> None:
        self._http.close()
        self._paywall.close()
