"""A seller's hands for the tests: calls the service over HTTP, and a wallet that pays."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from faregate.emulator import TEST_KEY, Account, Emulator, ManualClock, Wallet
from faregate.merchant.formats import ID_TAIL
from faregate.rules.payments import Ledger
from faregate.x402.tokens import Environment

from .services import Build, MerchantService

Json = dict[str, Any]
ROOT = "/merchant/v1"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def decoded(header: str) -> Json:
    """The JSON object in a base64 header; strict about alphabet and padding."""
    found: Json = json.loads(base64.b64decode(header, validate=True))
    return found


def encoded(value: object) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def is_id(prefix: str, value: object) -> bool:
    """The spec's pattern, written out once more."""
    return isinstance(value, str) and re.fullmatch(f"{prefix}_{ID_TAIL}", value) is not None


def assert_error(response: httpx.Response, status: int, code: str) -> str:
    """The reply is exactly this error of the contract; gives its message."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"code", "message"}
    assert body["code"] == code
    assert isinstance(body["message"], str)
    assert body["message"]
    assert response.headers["content-type"] == "application/json"
    return str(body["message"])


@dataclass(frozen=True)
class Purchase:
    """An authorized transaction, and what is needed to complete it."""

    id: str
    proof: str
    revision_id: str


@dataclass
class ApiClient:
    """A seller's hands. `build` makes services on the store of the test; `plug` serves them."""

    http: httpx.Client
    service: MerchantService
    clock: ManualClock
    plug: Callable[[MerchantService], None]
    build: Build = Emulator
    key: str = TEST_KEY
    wallet: Wallet = field(init=False)

    def __post_init__(self) -> None:
        self.wallet = Wallet(clock=self.clock)

    @property
    def emulator(self) -> Emulator:
        """The service, for tests of what the emulator alone has."""
        assert isinstance(self.service, Emulator), "a test on another store than memory: see stores.py"
        return self.service

    def use(self, service: MerchantService) -> None:
        """Another service behind the same server, from now on."""
        self.service = service
        self.plug(service)

    def use_account(
        self, account: Account | None = None, *, ledger: Ledger | None = None, allow_live: bool = False
    ) -> None:
        """A new service with this account on the store of the test, from now on."""
        self.use(self.build(account, clock=self.clock, ledger=ledger, allow_live=allow_live))

    def get(self, path: str, key: str | None = None) -> httpx.Response:
        return self.http.get(self._address(path), headers=bearer(key or self.key))

    def post(self, path: str, body: Json, proof: str | None = None, key: str | None = None) -> httpx.Response:
        headers = bearer(key or self.key) | ({} if proof is None else {"PAYMENT-SIGNATURE": proof})
        return self.http.post(self._address(path), json=body, headers=headers)

    def raw(self, path: str, content: bytes, headers: list[tuple[str, str]] | None = None) -> httpx.Response:
        pairs = [*bearer(self.key).items(), ("Content-Type", "application/json"), *(headers or [])]
        return self.http.post(self._address(path), content=content, headers=pairs)

    def access_body(self, resource: str = "text_summary", /, **changes: object) -> Json:
        environment: Environment = "live" if self.key.startswith("svc_live_") else "test"
        sold = {one.key: one for one in self.service.account.resources}
        body = {
            "revision_id": self.service.revision_id(resource, environment),
            "resource": {"url": f"https://seller.example/{resource}", "mime_type": "application/json"},
            "settlement_asset": sold[resource].revisions[-1].asset,
        }
        return {**body, **changes}

    def access(self, resource: str = "text_summary", proof: str | None = None) -> httpx.Response:
        return self.post("/access", self.access_body(resource), proof)

    def instructions(self, resource: str = "text_summary") -> str:
        return str(self.access(resource).headers["payment-required"])

    def proof(self, resource: str = "text_summary") -> str:
        """A good, unused proof for this resource."""
        return self.wallet.pay(self.instructions(resource))

    def buy(self, resource: str = "text_summary") -> Purchase:
        """Access with a fresh proof."""
        proof = self.proof(resource)
        response = self.access(resource, proof)
        assert response.status_code == 200, response.text
        return Purchase(
            response.json()["transaction_id"], proof, str(self.access_body(resource)["revision_id"])
        )

    def complete(self, bought: Purchase, proof: str | None = None, **changes: object) -> httpx.Response:
        body = {"revision_id": bought.revision_id, "outcome": "succeeded", "values": {}, **changes}
        return self.post(f"/transactions/{bought.id}/complete", body, proof or bought.proof)

    def fail(self, bought: Purchase, code: str = "work_failed") -> httpx.Response:
        body = {"revision_id": bought.revision_id, "outcome": "failed", "failure_code": code}
        return self.post(f"/transactions/{bought.id}/complete", body, bought.proof)

    def transaction(self, bought: Purchase) -> Json:
        response = self.get(f"/transactions/{bought.id}")
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    def listed(self, path: str) -> Json:
        response = self.get(path)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    @staticmethod
    def _address(path: str) -> str:
        return path if path.startswith(ROOT) else ROOT + path
