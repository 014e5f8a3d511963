"""No call costs more because there is more to remember. Steps of the interpreter are counted, not seconds."""

import base64
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import FrameType
from typing import Any

import pytest

from faregate.emulator import TEST_KEY, Emulator, ManualClock
from faregate.emulator.payments import Payment, Refused, Settled, Terms, Verified
from faregate.model import Response, WireRequest

FEW, MANY = 100, 1_600
SLACK = 1.6
"""Sixteen times as many transactions: a walk over them would take far more than this times the steps."""
PAYERS = 2


class Trusting:
    """Takes every payment, and looks at none: proofs need no signature."""

    def verify(self, payment: Payment, terms: Terms, *, now: datetime, committed: int) -> Verified | Refused:
        return Verified(payment.payer)

    def settle(self, payment: Payment, terms: Terms, *, now: datetime) -> Settled | Refused:
        return Settled("0x" + "ab" * 32)


@dataclass
class Seller:
    """Calls an emulator in this process."""

    clock: ManualClock = field(default_factory=ManualClock)
    sold: int = 0

    def __post_init__(self) -> None:
        self.emulator = Emulator(clock=self.clock, payments=Trusting())
        self.revision_id = self.emulator.revision_id("text_summary")

    def call(self, method: str, path: str, body: object = None, proof: str = "") -> Response:
        headers = (
            ("authorization", f"Bearer {TEST_KEY}"),
            *((("payment-signature", proof),) if proof else ()),
        )
        content = None if body is None else json.dumps(body).encode()
        return self.emulator.respond(WireRequest(method, f"/merchant/v1{path}", headers, content))

    def authorize(self) -> tuple[str, str]:
        """A new transaction: its id and its proof."""
        self.sold += 1
        self.clock.advance(0.001)
        made = proof(self.sold, payer=self.sold % PAYERS)
        body = {
            "revision_id": self.revision_id,
            "resource": {"url": "https://seller.example/text", "mime_type": "text/plain"},
            "settlement_asset": "USDC",
        }
        return str(json.loads(self.call("POST", "/access", body, made).body)["transaction_id"]), made

    def complete(self, identifier: str, proof: str) -> Response:
        body = {"revision_id": self.revision_id, "outcome": "succeeded", "values": {}}
        return self.call("POST", f"/transactions/{identifier}/complete", body, proof)

    def sell(self) -> None:
        assert self.complete(*self.authorize()).first("payment-response")

    def listed(self, path: str) -> Any:
        response = self.call("GET", path)
        assert response.status == 200, response.body
        return json.loads(response.body)


def proof(number: int, payer: int) -> str:
    authorization = {
        "from": f"0x{payer:040x}",
        "to": "0x" + "1" * 40,
        "value": "10000",
        "validAfter": "0",
        "validBefore": "4102444800",
        "nonce": f"0x{number:064x}",
    }
    payload = {"authorization": authorization, "signature": "0x" + "5a" * 65}
    return base64.b64encode(
        json.dumps({"x402Version": 2, "accepted": {}, "payload": payload}).encode()
    ).decode()


def seller_of(transactions: int) -> Seller:
    """Every second one is completed, half of these long after they were made."""
    seller, late = Seller(), list[tuple[str, str]]()
    for number in range(transactions):
        bought = seller.authorize()
        if number % 4 == 0:
            seller.complete(*bought)
        elif number % 4 == 1:
            late.append(bought)
    for bought in late:
        seller.clock.advance(0.001)
        seller.complete(*bought)
    return seller


@pytest.fixture(scope="module")
def few() -> Seller:
    return seller_of(FEW)


@pytest.fixture(scope="module")
def many() -> Seller:
    return seller_of(MANY)


def steps(work: Callable[[], object]) -> int:
    """Instructions of Python that the work takes; once before, so that nothing is done for the first time."""
    work()
    taken = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal taken
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        taken += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return taken


def middle(seller: Seller, path: str) -> str:
    """The page in the middle of this list, of five."""
    page = max(1, seller.listed(path)["count"] // 10)
    return f"{path}&page_size=5&page={page}"


def payer_id(seller: Seller) -> str:
    return str(seller.listed("/payers")["items"][1]["id"])


def past(seller: Seller) -> str:
    """A moment when half of the transactions were there, and some of these had another status than now."""
    items = seller.listed(f"/transactions?page_size=1&page={seller.sold // 2}")["items"]
    return str(items[0]["created_at"])


LISTS: dict[str, Callable[[Seller], str]] = {
    "all": lambda seller: "/transactions?order=newest",
    "oldest": lambda seller: "/transactions?order=oldest",
    "of a moment": lambda seller: f"/transactions?as_of={past(seller)}",
    "of a payer": lambda seller: f"/transactions?payer_id={payer_id(seller)}",
    "open": lambda seller: "/transactions?status=authorized",
    "succeeded": lambda seller: "/transactions?status=succeeded",
    "failed": lambda seller: "/transactions?status=failed",
    "open at a moment": lambda seller: f"/transactions?status=authorized&as_of={past(seller)}",
    "succeeded, of a payer, at a moment, oldest": lambda seller: (
        f"/transactions?status=succeeded&payer_id={payer_id(seller)}&as_of={past(seller)}&order=oldest"
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_page_takes_the_same_steps_however_long_the_list(few: Seller, many: Seller, name: str) -> None:
    short, long = (
        steps(partial(seller.listed, middle(seller, LISTS[name](seller)))) for seller in (few, many)
    )
    assert long < SLACK * short


def test_payers_take_the_same_steps_however_much_they_bought(few: Seller, many: Seller) -> None:
    short, long = (steps(partial(seller.listed, f"/payers?as_of={past(seller)}")) for seller in (few, many))
    assert long < SLACK * short


def test_a_sale_takes_the_same_steps_however_many_there_were(few: Seller, many: Seller) -> None:
    short, long = (steps(seller.sell) for seller in (few, many))
    assert long < SLACK * short
