"""Prices that change faster than the contracts are read again: each payer is asked for the new one."""

import base64
import json

from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from faregate.emulator import Emulator, Revision
from faregate.fastapi import PaywallMiddleware, paid
from faregate.testing import Payer

APP = FastAPI()
APP.add_middleware(PaywallMiddleware)


@APP.get("/report", dependencies=[Depends(paid("daily_report"))])
async def report() -> dict[str, str]:
    return {"report": "Sunny."}


CLIENT = TestClient(APP)
PRICES = (50_000, 10_000, 20_000, 30_000)


def test_each_price_is_asked_for_at_once(emulator: Emulator) -> None:
    asked: list[tuple[int, str | None]] = []
    for price in PRICES:
        emulator.publish("daily_report", Revision(amount=price))
        answer = CLIENT.get("/report")
        instructions = json.loads(base64.b64decode(answer.headers.get("payment-required", "e30=")))
        asked.append((answer.status_code, instructions.get("accepts", [{}])[0].get("amount")))
    assert asked == [(402, str(price)) for price in PRICES]


def test_each_price_is_paid_at_once(emulator: Emulator, payer: Payer) -> None:
    bought: list[str | None] = []
    for price in PRICES:
        emulator.publish("daily_report", Revision(amount=price))
        payment = payer.get(CLIENT, "/report").payment
        bought.append(None if payment is None else payment["amount"])
    assert bought == [str(price) for price in PRICES]
