"""Make purchases over HTTP, as a seller and its payers, for the page to show."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from playwright.sync_api import Locator, Page, expect

from faregate.emulator import Emulator, Wallet

Json = dict[str, Any]


@dataclass
class Purchases:
    """`http` has the key of the tenant."""

    http: httpx.Client
    emulator: Emulator

    def authorize(
        self,
        payer: str = "good",
        resource: str = "text_summary",
        description: str = "",
        before_paying: Callable[[], None] = lambda: None,
    ) -> "AuthorizedPurchase":
        """Request a price, and pay it after calling `before_paying`."""
        instructions = self.ask(resource, description)
        before_paying()
        return self.pay(instructions, payer, resource, description)

    def ask(self, resource: str = "text_summary", description: str = "") -> str:
        """Return the instructions in a 402."""
        asked = self.http.post("/access", json=self._body(resource, description))
        assert asked.status_code == 402, asked.text
        return asked.headers["payment-required"]

    def pay(
        self, instructions: str, payer: str = "good", resource: str = "text_summary", description: str = ""
    ) -> "AuthorizedPurchase":
        """Sign a payment for these instructions, and access with it."""
        proof = Wallet.test(payer, clock=self.emulator.clock).pay(instructions)
        return self.access(proof, resource, description)

    def access(
        self, proof: str, resource: str = "text_summary", description: str = ""
    ) -> "AuthorizedPurchase":
        """Call access with this proof."""
        body = self._body(resource, description)
        allowed = self.http.post("/access", json=body, headers={"PAYMENT-SIGNATURE": proof})
        identifier = allowed.json().get("transaction_id", "")
        return AuthorizedPurchase(identifier, proof, body["revision_id"], allowed.status_code)

    def complete(self, purchase: "AuthorizedPurchase", **fields: object) -> httpx.Response:
        body = {"revision_id": purchase.revision_id, "outcome": "succeeded", "values": {}, **fields}
        headers = {"PAYMENT-SIGNATURE": purchase.proof}
        return self.http.post(f"/transactions/{purchase.id}/complete", json=body, headers=headers)

    def fail(self, purchase: "AuthorizedPurchase", code: str = "no_luck") -> httpx.Response:
        body = {"revision_id": purchase.revision_id, "outcome": "failed", "failure_code": code}
        headers = {"PAYMENT-SIGNATURE": purchase.proof}
        return self.http.post(f"/transactions/{purchase.id}/complete", json=body, headers=headers)

    def buy(self, payer: str = "good", resource: str = "text_summary") -> str:
        """A whole purchase; gives the transaction's id."""
        purchase = self.authorize(payer, resource)
        self.complete(purchase)
        return purchase.id

    def _body(self, resource: str, description: str) -> Json:
        sold = {one.key: one for one in self.emulator.account.resources}[resource]
        url = f"https://seller.example/{resource.replace('_', '-')}"
        return {
            "revision_id": self.emulator.revision_id(resource),
            "resource": {"url": url, "mime_type": "application/json", "description": description},
            "settlement_asset": sold.revisions[-1].asset,
        }


@dataclass(frozen=True)
class AuthorizedPurchase:
    """`status` is that of the access with the proof; `id` is empty if it was refused."""

    id: str
    proof: str
    revision_id: str
    status: int


def choose(page: Page, row: Locator) -> None:
    """Opens a transaction."""
    row.click()
    expect(row).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#detail")).to_be_visible()
