"""The official clients name a purchase, and sign another payment for it with each call."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from eth_account import Account
from examples.chain.typescript_payer import NoTypeScript, install_client
from flask import Flask
from x402 import x402Client, x402ClientSync
from x402.extensions.payment_identifier import append_payment_identifier_to_extensions
from x402.http.clients import wrapHttpxWithPayment, wrapRequestsWithPayment
from x402.mechanisms.evm.exact import ExactEvmScheme

from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.transports import EmbeddedTransport
from faregate.flask import Faregate
from faregate.paywall import Paywall
from tests.servers.http import serving_wsgi
from tests.servers.shared import need
from tests.support.faulty_service import FaultyService

ID = "order_0123456789abcdef"
Answers = list[tuple[int, Any]]
Buy = Callable[[str, list[str]], Answers]
"""Buys each URL with one payer, under this name if it is not empty."""


class Seller:
    def __init__(self, use: str) -> None:
        self.emulator = Emulator()
        self.runs = 0
        self.app = Flask(__name__)
        faregate = Faregate()
        transport: Any = EmbeddedTransport(self.emulator)
        paywall = Paywall(
            base_url="http://service.example",
            api_key=TEST_KEY,
            environ={},
            transport=transport,
            payment_identifier=use,  # type: ignore[arg-type]
        )
        faregate.init_app(self.app, paywall)
        self.app.add_url_rule("/<name>", view_func=faregate.paid("daily_report")(self.work))

    def work(self, name: str) -> dict[str, Any]:
        self.runs += 1
        return {"name": name, "run": self.runs}

    def statuses(self) -> list[str]:
        return sorted(one["status"] for one in FaultyService(self.emulator).list_transactions())


@pytest.fixture
def seller(request: pytest.FixtureRequest) -> Generator[tuple[Seller, str]]:
    seller = Seller(getattr(request, "param", "optional"))
    with serving_wsgi(seller.app) as url:
        yield seller, url.rstrip("/")


def _name(identifier: str) -> Callable[[Any], None]:
    def name(context: Any) -> None:
        if identifier:
            append_payment_identifier_to_extensions(context.payment_required.extensions, identifier)

    return name


def buy_with_httpx(identifier: str, urls: list[str]) -> Answers:
    async def buy() -> Answers:
        client = x402Client().register("eip155:*", ExactEvmScheme(Account.create()))
        client.on_before_payment_creation(_name(identifier))
        async with wrapHttpxWithPayment(client, timeout=30) as http:
            responses: list[httpx.Response] = [await http.get(url) for url in urls]
            return [(response.status_code, response.json()) for response in responses]

    return asyncio.run(buy())


def buy_with_requests(identifier: str, urls: list[str]) -> Answers:
    client = x402ClientSync().register("eip155:*", ExactEvmScheme(Account.create()))
    client.on_before_payment_creation(_name(identifier))
    with wrapRequestsWithPayment(requests.Session(), client) as session:
        responses = [session.get(url, timeout=30) for url in urls]
        return [(response.status_code, response.json()) for response in responses]


def buy_with_fetch(identifier: str, urls: list[str]) -> Answers:
    try:
        folder = install_client(Path(__file__).with_name("identifier"))
    except NoTypeScript as error:
        need("npm", str(error))
        raise
    command = ["node", "buy.mjs", identifier, *urls]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [(status, body) for status, body in json.loads(done.stdout)]


@pytest.fixture(
    params=[buy_with_httpx, buy_with_requests, buy_with_fetch], ids=["httpx", "requests", "fetch"]
)
def buy(request: pytest.FixtureRequest) -> Buy:
    found: Buy = request.param
    return found


@pytest.mark.parametrize("seller", ["optional", "required"], indirect=True)
def test_one_of_all_payments_for_a_name_is_charged(seller: tuple[Seller, str], buy: Buy) -> None:
    shop, url = seller
    answers = buy(ID, [f"{url}/a"] * 3)
    assert answers == [(200, {"name": "a", "run": 1})] * 3
    assert shop.statuses() == ["failed", "failed", "succeeded"]


def test_a_name_is_refused_for_another_request(seller: tuple[Seller, str], buy: Buy) -> None:
    shop, url = seller
    [(bought, _), (refused, why)] = buy(ID, [f"{url}/a", f"{url}/b"])
    assert (bought, refused, why["code"]) == (200, 409, "payment_identifier_reused")
    assert (shop.runs, shop.statuses()) == (1, ["failed", "succeeded"])


def test_a_client_that_does_not_know_the_extension_buys_where_it_is_optional(
    seller: tuple[Seller, str], buy: Buy
) -> None:
    shop, url = seller
    assert [status for status, _ in buy("", [f"{url}/a"] * 2)] == [200, 200]
    assert shop.statuses() == ["succeeded"] * 2


@pytest.mark.parametrize("seller", ["required"], indirect=True)
def test_such_a_client_is_refused_and_not_charged_where_it_is_required(
    seller: tuple[Seller, str], buy: Buy
) -> None:
    shop, url = seller
    [(status, why)] = buy("", [f"{url}/a"])
    assert (status, why["code"]) == (400, "payment_identifier_required")
    assert (shop.runs, shop.statuses()) == (0, [])
