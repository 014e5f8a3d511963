"""A seller that sells `mine` through a service, and a payer whose 402 it relays."""

import json
from dataclasses import dataclass
from typing import Any

import httpx

from faregate.emulator import Wallet
from tests.support.waiting import eventually

ROOT = "/merchant/v1"
Json = dict[str, Any]


@dataclass
class Shop:
    """The seller's calls with one key. `name` is the resource's."""

    url: str
    key: str
    name: str = "Mine"

    def call(
        self, method: str, path: str, *, proof: str | None = None, body: Json | None = None
    ) -> httpx.Response:
        """Make one call, on a connection of its own."""
        headers = {"Authorization": f"Bearer {self.key}"}
        if proof is not None:
            headers["PAYMENT-SIGNATURE"] = proof
        with httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=60) as client:
            return client.request(method, f"{ROOT}{path}", json=body, headers=headers)

    def find_revision(self) -> str:
        schemas: Json = self.call("GET", "/contracts").json()["components"]["schemas"]
        return next(name for name, one in schemas.items() if one["x-svc-resource-name"] == self.name)

    def access(self, proof: str | None = None) -> httpx.Response:
        body = {
            "revision_id": self.find_revision(),
            "resource": {"url": "https://seller.example/mine", "mime_type": "text/plain"},
            "settlement_asset": "USDC",
        }
        return self.call("POST", "/access", proof=proof, body=body)

    def authorize(self, wallet: Wallet) -> tuple[str, str]:
        """The id of a transaction that this payer authorized, and its proof."""
        asked = self.access()
        assert asked.status_code == 402, asked.text
        proof = wallet.pay(asked.headers["PAYMENT-REQUIRED"])
        allowed = self.access(proof)
        assert allowed.status_code == 200, allowed.text
        return allowed.json()["transaction_id"], proof

    def complete(self, transaction_id: str, proof: str) -> httpx.Response:
        body = {
            "revision_id": self.find_revision(),
            "outcome": "succeeded",
            "resource_execution": {
                "duration_ms": 1,
                "response_content_type": "text/plain",
                "response_size_bytes": 1,
                "response_status": 200,
            },
            "values": {},
        }
        return self.call("POST", f"/transactions/{transaction_id}/complete", proof=proof, body=body)

    def fail(self, transaction_id: str, proof: str) -> httpx.Response:
        body = {"revision_id": self.find_revision(), "outcome": "failed", "failure_code": "broken"}
        return self.call("POST", f"/transactions/{transaction_id}/complete", proof=proof, body=body)

    def read(self, transaction_id: str) -> Json:
        found: Json = self.call("GET", f"/transactions/{transaction_id}").json()
        return found

    def wait_for_end(self, transaction_id: str) -> Json:
        """The transaction once it has ended, as nobody but workers settles it."""
        assert eventually(lambda: self.read(transaction_id)["status"] in ("succeeded", "failed"))
        return self.read(transaction_id)


def open_shop(line: str, key: str | None = None) -> Shop:
    """The shop at the service that printed this line, with its test key or another."""
    told = json.loads(line)
    return Shop(told["url"], key or told["test_key"])
