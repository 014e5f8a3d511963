"""A handler that is priced by use: what is charged, and what charges nothing."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from eth_account import Account
from fastapi import Depends, FastAPI
from sqlalchemy import func, select
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse
from starlette.testclient import TestClient
from x402 import x402ClientSync
from x402.http.utils import decode_payment_required_header, encode_payment_signature_header
from x402.mechanisms.evm.upto import UptoEvmScheme

from faregate import ConfigurationError, Offer, Payment, Paywall, Usage
from faregate.emulator import Emulator
from faregate.emulator.wallet import Wallet
from faregate.events import Event, Failed, Settled
from faregate.fastapi import PaywallMiddleware, paid
from faregate.rules.verification import UNCHARGED
from faregate.service.database.schema import transactions
from faregate.service.storage import Storage
from faregate.x402.declared_prices import DeclaredPrice
from faregate.x402.tokens import TOKENS
from tests.service.in_process import Buyer, build_environ, open_storage_of
from tests.support.headers import decode_header

PRICE = Usage(at_most="0.50 USDC", rates={"output-tokens": "0.00001 USDC"})
TOKENS_USED = "/chat?tokens="


class Shop:
    """An application that sells by use, and what it hears of its sales."""

    def __init__(self, environ: dict[str, str], price: Usage = PRICE) -> None:
        self.events: list[Event] = []
        self.maxima: list[int | None] = []
        self.app = app = FastAPI()
        paywall = Paywall(environ=environ, on_event=self.events.append)
        app.add_middleware(PaywallMiddleware, paywall=paywall)
        sold = Depends(paid("chat", price=price))

        @app.get("/chat")
        async def chat(payment: Annotated[Payment, sold], tokens: str = "") -> dict[str, str]:
            self.maxima.append(payment.maximum_atomic)
            if tokens == "broken":
                raise RuntimeError("the model is away")
            if tokens:
                payment.report({"output-tokens": tokens})
            return {"answer": "42"}

    def find_settled(self) -> Settled:
        [settled] = [event for event in self.events if isinstance(event, Settled)]
        return settled


@pytest.fixture(params=["emulator:", "service:"])
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    found = build_environ(tmp_path)
    if request.param == "emulator:":
        return {"FAREGATE_BASE_URL": "emulator:"}
    return found


@contextmanager
def open_shop(environ: dict[str, str], price: Usage = PRICE) -> Iterator[tuple[Shop, Buyer]]:
    shop = Shop(environ, price)
    with TestClient(shop.app, raise_server_exceptions=False) as client:
        yield shop, Buyer(client, Wallet())


def read_payment(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = decode_header(answer.headers["payment-response"])
    return found


def test_the_payer_pays_for_what_was_used(environ: dict[str, str]) -> None:
    with open_shop(environ) as (shop, buyer):
        asked = buyer.ask(f"{TOKENS_USED}1230")
        [terms] = decode_header(asked.headers["payment-required"])["accepts"]
        assert (terms["scheme"], terms["amount"]) == ("upto", "500000")
        answer = buyer.pay(asked, f"{TOKENS_USED}1230")
        assert answer.json() == {"answer": "42"}
        assert read_payment(answer)["amount"] == "12300"
        assert shop.maxima == [500_000]
        sale = shop.find_settled().sale
        assert (sale.amount, sale.authorized, sale.is_at_maximum) == (12_300, 500_000, False)


def test_a_use_above_the_maximum_pays_the_maximum(environ: dict[str, str]) -> None:
    with open_shop(environ) as (shop, buyer):
        assert read_payment(buyer.buy(f"{TOKENS_USED}50001"))["amount"] == "500000"
        assert shop.find_settled().sale.is_at_maximum


@pytest.mark.parametrize("tokens", ["", "broken"])
def test_work_without_its_values_charges_nothing(environ: dict[str, str], tokens: str) -> None:
    with open_shop(environ) as (shop, buyer):
        answer = buyer.buy(f"{TOKENS_USED}{tokens}")
        assert answer.status_code == 500
        assert "payment-response" not in answer.headers
        assert b"42" not in answer.content
        assert [type(event) for event in shop.events if isinstance(event, Failed | Settled)] == [Failed]


@pytest.mark.parametrize("when", ["stream", "background"])
def test_what_is_reported_after_the_handler_returned(environ: dict[str, str], when: str) -> None:
    """A stream is work, and its reports count. A background task runs when the amount is fixed."""
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, paywall=Paywall(environ=environ))

    @app.get("/chat")
    async def chat(payment: Annotated[Payment, Depends(paid("chat", price=PRICE))]) -> Response:
        payment.report({"output-tokens": 10})

        async def answer() -> AsyncIterator[str]:
            for number in range(3):
                if when == "stream":
                    payment.report({"output-tokens": 1230 + number})
                yield "42 "

        later = BackgroundTask(payment.report, {"output-tokens": 50_000})
        return StreamingResponse(answer(), background=later if when == "background" else None)

    with TestClient(app) as client:
        buyer = Buyer(client, Wallet())
        asked = buyer.ask("/chat")
        proof = buyer.wallet.pay(asked.headers["payment-required"])
        for _ in range(2):
            answer = buyer.send(proof, "/chat")
            assert answer.text == "42 42 42 "
            assert read_payment(answer)["amount"] == ("12320" if when == "stream" else "100")


def test_the_same_proof_again_costs_nothing_more(environ: dict[str, str]) -> None:
    with open_shop(environ) as (_, buyer):
        path = f"{TOKENS_USED}1230"
        proof = buyer.wallet.pay(buyer.ask(path).headers["payment-required"])
        first, second = buyer.send(proof, path), buyer.send(proof, path)
        assert first.headers["payment-response"] == second.headers["payment-response"]
        assert buyer.send(proof, f"{TOKENS_USED}1").status_code == 409


def test_the_official_client_pays_it(environ: dict[str, str]) -> None:
    token = TOKENS["test", "USDC"]
    client = x402ClientSync()
    client.register(token.network, UptoEvmScheme(Account.create()))
    allowed: Any = [{"network": token.network, "asset": token.address, "max_amount_per_payment": "500000"}]
    client.set_spend_controls({"allowed_assets": allowed})
    with open_shop(environ) as (_, buyer):
        path = f"{TOKENS_USED}1230"
        required: Any = decode_payment_required_header(buyer.ask(path).headers["payment-required"])
        proof = encode_payment_signature_header(client.create_payment_payload(required))
        answer = buyer.send(proof, path)
        assert answer.status_code == 200, answer.text
        assert read_payment(answer)["amount"] == "12300"


def test_a_page_for_people_says_up_to(environ: dict[str, str]) -> None:
    with open_shop(environ) as (_, buyer):
        page = buyer.client.get("/chat", headers={"Accept": "text/html"})
        assert page.status_code == 402
        assert "<strong>up to 0.50 USDC</strong>" in page.text
        assert "What was used is charged" in page.text


def test_other_rates_are_another_price(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    dearer = Usage(at_most="0.50 USDC", rates={"output-tokens": "0.00002 USDC"})
    for price, paid_amount in ((PRICE, "12300"), (dearer, "24600"), (PRICE, "12300")):
        with open_shop(environ, price) as (_, buyer):
            assert read_payment(buyer.buy(f"{TOKENS_USED}1230"))["amount"] == paid_amount


def test_two_prices_by_use_for_one_name_are_refused(tmp_path: Path) -> None:
    paywall = Paywall(environ=build_environ(tmp_path))
    other = Usage(at_most="0.40 USDC", rates=PRICE.rates)
    offers = [Offer("chat", price=price) for price in (PRICE, other)]
    with pytest.raises(ConfigurationError, match=r"sold for up to 0\.50 USDC and for up to 0\.40 USDC"):
        paywall.expect_offers(offers)
    paywall.close()


def test_the_price_of_a_service_elsewhere_is_set_there() -> None:
    environ = {"FAREGATE_BASE_URL": "https://service.invalid", "FAREGATE_API_KEY": "svc_test_1"}
    paywall = Paywall(environ=environ)
    with pytest.raises(ConfigurationError, match="is set in your account there"):
        paywall.expect_offers([Offer("chat", price=PRICE)])
    paywall.close()


def test_a_maximum_is_no_fixed_price(tmp_path: Path) -> None:
    with open_shop(build_environ(tmp_path)) as (_, buyer):
        buyer.ask("/chat")
        paywall: Paywall = buyer.client.app.user_middleware[0].kwargs["paywall"]
        with pytest.raises(ConfigurationError, match="write a Usage"):
            paid("copy", price=paywall.find_price("chat"))


def build_shop(environ: dict[str, str], price: str | Usage, path: str = "/chat") -> FastAPI:
    """An application whose handler reports what its price has rates for."""
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, paywall=Paywall(environ=environ))
    rates = price.rates if isinstance(price, Usage) else {}

    @app.get(path)
    async def chat(payment: Annotated[Payment, Depends(paid("chat", price=price))]) -> dict[str, str]:
        payment.report(dict.fromkeys(rates, 1230))
        return {"answer": "42"}

    return app


FIXED = "0.50 USDC"
BY_PAGE = Usage(at_most="0.40 USDC", rates={"pages": "0.00001 USDC"})
BY_BOTH = Usage(at_most="0.40 USDC", rates={**BY_PAGE.rates, **PRICE.rates})


@pytest.mark.parametrize(
    ("before", "after", "settled"),
    [
        # What was asked stays payable at its price, if the new code can complete it.
        (FIXED, PRICE, "500000"),
        (PRICE, BY_BOTH, "12300"),
        # The new code does not report what this price needs: the payer is asked for the new one.
        (PRICE, FIXED, None),
        (PRICE, BY_PAGE, None),
    ],
    ids=["fixed-usage", "usage-more", "usage-fixed", "usage-other"],
)
def test_an_open_402_of_another_kind_of_price(
    tmp_path: Path, before: str | Usage, after: str | Usage, settled: str | None
) -> None:
    environ = build_environ(tmp_path)
    with TestClient(build_shop(environ, before)) as old, TestClient(build_shop(environ, after)) as new:
        buyer = Buyer(old, Wallet())
        asked = buyer.ask("/chat")
        buyer.client = new
        buyer.ask("/chat")
        answer = buyer.pay(asked, "/chat")
        if settled is None:
            assert answer.status_code == 402
            answer = buyer.pay(answer, "/chat")
            assert answer.json() == {"answer": "42"}
        else:
            assert read_payment(answer)["amount"] == settled


@pytest.mark.parametrize("after", [FIXED, BY_PAGE], ids=["fixed", "other"])
def test_a_worker_is_killed_before_the_work_and_code_with_another_price_comes(
    tmp_path: Path, after: str | Usage
) -> None:
    """The new code could never complete the payment: it ends uncharged, and the new price is asked."""
    environ = build_environ(tmp_path)
    with TestClient(build_shop(environ, PRICE)) as old:
        buyer = Buyer(old, Wallet())
        proof = buyer.wallet.pay(buyer.ask("/chat").headers["payment-required"])
        transaction_id = authorize(old, proof)
    with TestClient(build_shop(environ, after)) as new, open_storage_of(environ) as storage:
        buyer.client = new
        before = read_row(storage, transaction_id)
        answer = buyer.send(proof, "/chat")
        assert (before.final_status, answer.status_code) == (None, 402)
        assert answer.json()["message"] in UNCHARGED
        row = read_row(storage, transaction_id)
        assert (row.final_status, row.submitted_at, "price_changed" in row.outcome) == ("failed", None, True)
        assert buyer.pay(answer, "/chat").json() == {"answer": "42"}
        assert buyer.send(proof, "/chat").status_code == 402
        with storage.database.read() as connection:
            assert connection.execute(select(func.count()).select_from(transactions)).scalar() == 2


def test_a_proof_that_is_open_elsewhere_is_left_alone(tmp_path: Path) -> None:
    """The payment of one address is sent to another one, of code that reports other values."""
    environ = build_environ(tmp_path)
    with TestClient(build_shop(environ, PRICE)) as old:
        buyer = Buyer(old, Wallet())
        proof = buyer.wallet.pay(buyer.ask("/chat").headers["payment-required"])
        transaction_id = authorize(old, proof)
        app = build_shop(environ, BY_PAGE, "/other")
    with TestClient(app) as new, open_storage_of(environ) as storage:
        buyer.client = new
        assert buyer.send(proof, "/other").status_code in (402, 409)
        assert read_row(storage, transaction_id).final_status is None


def authorize(client: TestClient, proof: str) -> str:
    """Call access as a worker does that is killed before it has written anything; return the transaction."""
    app: Any = client.app
    service = app.user_middleware[0].kwargs["paywall"]._embedded
    key = (("authorization", "Bearer none"),)
    contracts = service.send("GET", "http://service/merchant/v1/contracts", key, None, 5.0)
    [revision_id] = json.loads(contracts.body)["components"]["schemas"]
    resource = {"url": "http://testserver/chat", "mime_type": "application/json"}
    asked = {"revision_id": revision_id, "resource": resource, "settlement_asset": "USDC"}
    headers = (*key, ("content-type", "application/json"), ("PAYMENT-SIGNATURE", proof))
    url = "http://service/merchant/v1/access"
    answer = service.send("POST", url, headers, json.dumps(asked).encode(), 5.0)
    assert answer.status == 200, answer.body
    return str(json.loads(answer.body)["transaction_id"])


def read_row(storage: Storage, transaction_id: str) -> Any:
    with storage.database.read() as connection:
        return connection.execute(select(transactions).where(transactions.c.id == transaction_id)).one()


def test_a_resource_of_the_account_gets_a_price_by_use() -> None:
    price = Usage(at_most="0.50 USDC", rates={"output-tokens": "0.00001 USDC", "pages": "0.001 USDC"})
    emulator = Emulator()
    published = emulator.publish_prices({"text_summary": DeclaredPrice(price)})["text_summary"]
    required = {value.name: value.required for value in published.rules.values}
    assert required == {"input-tokens": False, "output-tokens": True, "pages": True}
    assert published.price_label == "up to 0.50 USDC"
    assert emulator.publish_prices({"text_summary": DeclaredPrice(price)})["text_summary"] == published
