"""Applications that have the service inside their process, with simulated payments."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from flask import Flask

from faregate import Offer, Paywall
from faregate.emulator.wallet import Wallet
from faregate.flask import Faregate
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.storage import Storage
from faregate.system import system_clock

PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"


def build_environ(folder: Path, **variables: str) -> dict[str, str]:
    """The settings of an application whose database is in this folder."""
    settings = {
        "FAREGATE_BASE_URL": "service:",
        "FAREGATE_SERVICE_DATABASE": f"sqlite:///{folder / 'shop.db'}",
        "FAREGATE_SERVICE_PAYMENTS": "simulated",
        "FAREGATE_SERVICE_PAY_TO": PAY_TO,
    } | variables
    return {name: value for name, value in settings.items() if value}


@contextmanager
def open_paywall(environ: Mapping[str, str], *offers: Offer, **arguments: Any) -> Generator[Paywall]:
    """A paywall of an application that sells these offers, as it starts."""
    paywall = Paywall(environ=environ, **arguments)
    try:
        paywall.expect_offers(offers)
        anyio.run(paywall.astart)
        yield paywall
    finally:
        paywall.close()


def build_flask(paywall: Paywall, price: str | None = "0.05 USDC") -> Flask:
    app, extension = Flask("seller"), Faregate()
    app.get("/report")(extension.paid("daily_report", price=price)(lambda: {"report": "sunny"}))
    extension.init_app(app, paywall)
    return app


@contextmanager
def open_storage_of(environ: Mapping[str, str]) -> Generator[Storage]:
    database = Database(environ["FAREGATE_SERVICE_DATABASE"])
    try:
        yield Storage(database, Stamps(database, system_clock))
    finally:
        database.close()


@dataclass
class Buyer:
    """Somebody who pays with a test client."""

    client: Any
    wallet: Wallet

    def ask(self, path: str = "/report") -> Any:
        return self.client.get(path)

    def pay(self, asked: Any, path: str = "/report") -> Any:
        proof = self.wallet.pay(asked.headers["payment-required"])
        return self.send(proof, path)

    def send(self, proof: str, path: str = "/report") -> Any:
        return self.client.get(path, headers={"PAYMENT-SIGNATURE": proof})

    def buy(self, path: str = "/report") -> Any:
        return self.pay(self.ask(path), path)
