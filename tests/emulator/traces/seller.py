"""The seller of the story, with the payers whose payments it forwards."""

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import httpx

from faregate.emulator import TEST_KEY, ManualClock, Revision, Wallet
from tests.emulator.seller import ROOT, bearer

from .record import Recorder

Json = dict[str, Any]
UNKNOWN: Final = "01941f297c007fd3870c7c57bc5c1000"
"""The tail of an id that no service has."""


class Catalog(Protocol):
    """What a seller changes in the seller application, and not by the API."""

    def publish(self, key: str, revision: Revision, /) -> object: ...
    def archive(self, key: str, /) -> object: ...
    def edit_resource(self, key: str, /, *, name: str) -> object: ...


@dataclass(frozen=True, slots=True)
class Bought:
    """An authorized transaction, with what completes it."""

    id: str
    proof: str
    revision: str

    @property
    def path(self) -> str:
        return f"/transactions/{self.id}/complete"

    @property
    def succeeded(self) -> Json:
        return {"revision_id": self.revision, "outcome": "succeeded", "values": {}}

    @property
    def failed(self) -> Json:
        return {"revision_id": self.revision, "outcome": "failed", "failure_code": "broken"}


@dataclass
class Seller:
    """Sells the built-in account's resources. Payers sign the same authorizations in each telling."""

    http: httpx.Client
    clock: ManualClock
    catalog: Catalog
    recorder: Recorder = field(init=False)
    _signed: int = 0

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.http)
        self.call = self.recorder.call

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.call("GET", path, **options)

    def find_revision(self, key: str) -> str:
        """Find the revision that is sold now, by a call that is not recorded."""
        answer = self.http.get(f"{ROOT}/contracts?include_integration_key=true", headers=bearer(TEST_KEY))
        schemas: Json = answer.json()["components"]["schemas"]
        return next(name for name, one in schemas.items() if one["x-svc-resource-integration-key"] == key)

    def body(self, key: str = "text_summary", **changes: object) -> Json:
        asset = "EURC" if key == "euro_report" else "USDC"
        resource = {"url": f"https://seller.example/{key}", "mime_type": "application/json"}
        made = {"revision_id": self.find_revision(key), "resource": resource, "settlement_asset": asset}
        return {**made, **changes}

    def access(self, key: str = "text_summary", proof: str | None = None) -> httpx.Response:
        return self.call("POST", "/access", self.body(key), proof=proof)

    def sign(self, key: str = "text_summary", payer: str = "good") -> str:
        self._signed += 1
        wallet = Wallet.test(payer, clock=self.clock)
        return wallet.pay(self.access(key).headers["payment-required"], nonce=f"0x{self._signed:064x}")

    def buy(self, key: str = "text_summary", payer: str = "good") -> Bought:
        # Of what is made in one moment, a list has no order that the contract names.
        self.clock.advance(0.01)
        proof = self.sign(key, payer)
        made = self.access(key, proof).json()["transaction_id"]
        return Bought(made, proof, self.find_revision(key))

    def complete(self, bought: Bought, body: Json | None = None) -> httpx.Response:
        return self.call("POST", bought.path, body or bought.succeeded, proof=bought.proof)

    def read(self, bought: Bought) -> httpx.Response:
        return self.get(f"/transactions/{bought.id}")
