"""The fixtures pay a price that follows the use, and hostile payments of it are refused."""

from collections.abc import Iterator
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from faregate import Payment, Usage
from faregate.emulator import Emulator, SettlementRule
from faregate.fastapi import PaywallMiddleware, paid
from faregate.testing import Payer

PRICE = Usage(at_most="0.50 USDC", rates={"output-tokens": "0.00001 USDC"})


@pytest.fixture
def client(emulator: Emulator) -> Iterator[TestClient]:
    app = FastAPI()
    app.add_middleware(PaywallMiddleware)

    @app.get("/chat")
    async def chat(payment: Annotated[Payment, Depends(paid("chat", price=PRICE))]) -> dict[str, str]:
        payment.report({"output-tokens": 1230})
        return {"answer": "42"}

    with TestClient(app) as client:
        yield client


def test_a_payer_pays_for_what_was_used(client: TestClient, payer: Payer, emulator: Emulator) -> None:
    before = emulator.balance(payer.address)
    answer = payer.get(client, "/chat")
    assert answer.paid
    assert (answer.payment or {})["amount"] == "12300"
    assert emulator.balance(payer.address) == before - 12_300


def test_a_payment_that_settles_late_takes_what_was_used(
    client: TestClient, payer: Payer, emulator: Emulator
) -> None:
    emulator.settle_after(payer.address, SettlementRule(after_seconds=5))
    first = payer.get(client, "/chat")
    assert first.status == 202
    emulator.clock.advance(6)
    again = payer.again(first)
    assert (again.payment or {})["amount"] == "12300"


def test_hostile_payments_of_a_maximum_are_refused(
    client: TestClient, payer: Payer, emulator: Emulator
) -> None:
    before = emulator.balance(payer.address)
    for refused in (payer.forged(client, "/chat"), payer.underpaid(client, "/chat")):
        assert refused.status == 402
    assert emulator.balance(payer.address) == before
    bought = payer.get(client, "/chat")
    assert payer.replay(bought, "/chat?other").status == 409
    assert emulator.balance(payer.address) == before - 12_300
