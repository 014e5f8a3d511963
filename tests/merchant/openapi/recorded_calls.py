"""Calls to an emulator in one process, of every kind, and everything that was said."""

import json
from dataclasses import dataclass, field
from typing import Any

from faregate.core.models import Headers, Response, WireRequest
from faregate.emulator import TEST_KEY, Emulator, ManualClock, Wallet
from faregate.merchant.requests import ROOT

Json = dict[str, Any]


@dataclass
class Teller:
    """A seller and a payer of one emulator. `told` keeps each call with its answer."""

    key: str = TEST_KEY
    clock: ManualClock = field(default_factory=ManualClock)
    told: list[tuple[WireRequest, Response]] = field(default_factory=list[tuple[WireRequest, Response]])

    def __post_init__(self) -> None:
        self.emulator = Emulator(clock=self.clock, expose_execution_id=True, allow_live=True)
        self.wallet = Wallet(clock=self.clock)

    @property
    def environment(self) -> Any:
        return "live" if self.key.startswith("svc_live_") else "test"

    def call(self, method: str, path: str, body: object = None, *more: tuple[str, str]) -> Response:
        """Any call; a body of bytes is sent as it is."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers: Headers = (("Authorization", f"Bearer {self.key}"), *more)
        if body is not None:
            headers = (*headers, ("Content-Type", "application/json"))
        request = WireRequest(method, ROOT + path, headers, None if body is None else content)
        response = self.emulator.respond(request)
        self.told.append((request, response))
        return response

    def revision(self, resource: str) -> str:
        return self.emulator.revision_id(resource, self.environment)

    def access(self, resource: str, proof: str | None = None, **changes: object) -> Response:
        body = {
            "revision_id": self.revision(resource),
            "resource": {"url": f"https://seller.example/{resource}", "mime_type": "application/json"},
            "settlement_asset": "EURC" if resource == "euro_report" else "USDC",
            **changes,
        }
        return self.call("POST", "/access", body, *signed(proof))

    def buy(self, resource: str) -> tuple[str, str]:
        """The transaction and the proof of a new payment."""
        instructions = self.access(resource).first("payment-required")
        assert instructions is not None
        proof = self.wallet.pay(instructions)
        return str(read(self.access(resource, proof))["transaction_id"]), proof

    def complete(self, resource: str, bought: tuple[str, str], **changes: object) -> Response:
        transaction, proof = bought
        body = {"revision_id": self.revision(resource), "outcome": "succeeded", "values": {}, **changes}
        body = {name: value for name, value in body.items() if value is not ...}
        return self.call("POST", f"/transactions/{transaction}/complete", body, *signed(proof))

    def fail(self, resource: str, bought: tuple[str, str]) -> Response:
        return self.complete(resource, bought, outcome="failed", failure_code="work_failed", values=...)

    def close(self, execution: str, **changes: object) -> Response:
        body = {
            "revision_id": self.revision("free_notes"),
            "resource_execution": {"duration_ms": 12, "response_status": 200},
            **changes,
        }
        return self.call("POST", f"/resource-executions/{execution}/complete", body)


def signed(proof: str | None) -> Headers:
    return () if proof is None else (("PAYMENT-SIGNATURE", proof),)


def read(response: Response) -> Json:
    found: Json = json.loads(response.body)
    return found
