"""A seller that calls an emulator in this process, many times: for what grows, in tests and benchmarks."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from faregate.core.models import Response, WireRequest
from faregate.emulator import TEST_KEY, Emulator, ManualClock
from faregate.rules.payments import PaymentRefused, PaymentSettled, PaymentVerified
from faregate.x402.models import SignedPayment, Terms
from tests.support.headers import encode_header

from .seller import ROOT, Json

Bought = tuple[str, str]
"""The id of a transaction and its proof."""


class Trusting:
    """Takes every payment and looks at none: proofs need no signature."""

    def verify(
        self, payment: SignedPayment, terms: Terms, *, now: datetime, committed: int
    ) -> PaymentVerified | PaymentRefused:
        return PaymentVerified(payment.payer)

    def settle(
        self, payment: SignedPayment, terms: Terms, *, now: datetime
    ) -> PaymentSettled | PaymentRefused:
        return PaymentSettled("0x" + "ab" * 32)


def access_body(revision_id: str) -> Json:
    return {
        "revision_id": revision_id,
        "resource": {"url": "https://seller.example/text_summary", "mime_type": "application/json"},
        "settlement_asset": "USDC",
    }


def complete_body(revision_id: str) -> Json:
    return {"revision_id": revision_id, "outcome": "succeeded", "values": {}}


def unsigned_proof(number: int, payer: int) -> str:
    authorization = {
        "from": f"0x{payer:040x}",
        "to": "0x" + "1" * 40,
        "value": "10000",
        "validAfter": "0",
        "validBefore": "4102444800",
        "nonce": f"0x{number:064x}",
    }
    payload = {"authorization": authorization, "signature": "0x" + "5a" * 65}
    return encode_header({"x402Version": 2, "accepted": {}, "payload": payload})


@dataclass
class Seller:
    """Sells to many payers. The first of them buys every second time, the others ten times each.

    Of ten sales one stays open and two are completed late; one in `fails_every` fails.
    """

    emulator: Emulator
    fails_every: int = 10
    sold: int = 0
    late: list[Bought] = field(default_factory=list[Bought])

    def __post_init__(self) -> None:
        self.revision_id = self.emulator.revision_id("text_summary")

    @classmethod
    def trusted(cls, fails_every: int = 10) -> Self:
        return cls(Emulator(clock=ManualClock(), ledger=Trusting()), fails_every)

    def call(self, method: str, path: str, body: object = None, proof: str = "") -> Response:
        headers = [("authorization", f"Bearer {TEST_KEY}")]
        if proof:
            headers.append(("payment-signature", proof))
        content = None if body is None else json.dumps(body).encode()
        return self.emulator.respond(WireRequest(method, ROOT + path, tuple(headers), content))

    def instructions(self) -> str:
        found = self.call("POST", "/access", access_body(self.revision_id)).first("payment-required")
        assert found
        return found

    def authorize(self) -> Bought:
        self.sold += 1
        if isinstance(self.emulator.clock, ManualClock):
            self.emulator.clock.advance(0.001)
        payer = 1 if self.sold % 2 else 2 + self.sold // 20
        proof = unsigned_proof(self.sold, payer)
        answer = self.call("POST", "/access", access_body(self.revision_id), proof)
        return str(json.loads(answer.body)["transaction_id"]), proof

    def complete(self, bought: Bought) -> Response:
        identifier, proof = bought
        return self.call(
            "POST", f"/transactions/{identifier}/complete", complete_body(self.revision_id), proof
        )

    def fail(self, bought: Bought) -> Response:
        identifier, proof = bought
        body = {"revision_id": self.revision_id, "outcome": "failed", "failure_code": "no_luck"}
        return self.call("POST", f"/transactions/{identifier}/complete", body, proof)

    def sell(self) -> None:
        assert self.complete(self.authorize()).first("payment-response")

    def story(self) -> None:
        """One more transaction."""
        bought = self.authorize()
        if self.sold % self.fails_every == 0:
            self.fail(bought)
        elif self.sold % 10 in (5, 6):
            self.late.append(bought)
        elif self.sold % 10 != 7:
            self.complete(bought)
        if len(self.late) > 20:
            self.complete(self.late.pop(0))

    def listed(self, path: str) -> Any:
        response = self.call("GET", path)
        assert response.status == 200, response.body
        return json.loads(response.body)
