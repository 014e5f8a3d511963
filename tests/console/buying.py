"""A seller and its payers over HTTP, in a world of their own, for a page to look at."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from playwright.sync_api import Locator, Page, expect

from faregate.emulator import Emulator, Wallet

Json = dict[str, Any]


@dataclass
class Buying:
    """`http` has the key of the world."""

    http: httpx.Client
    emulator: Emulator

    def authorize(
        self,
        payer: str = "good",
        resource: str = "text_summary",
        description: str = "",
        ponder: Callable[[], None] = lambda: None,
    ) -> "Bought":
        """402, a payment, 200; the payer ponders before it pays."""
        instructions = self.ask(resource, description)
        ponder()
        return self.pay(instructions, payer, resource, description)

    def ask(self, resource: str = "text_summary", description: str = "") -> str:
        """The instructions in a 402."""
        asked = self.http.post("/access", json=self._body(resource, description))
        assert asked.status_code == 402, asked.text
        return asked.headers["payment-required"]

    def pay(
        self, instructions: str, payer: str = "good", resource: str = "text_summary", description: str = ""
    ) -> "Bought":
        """Access with a payment for these."""
        proof = Wallet.test(payer, clock=self.emulator.clock).pay(instructions)
        return self.bring(proof, resource, description)

    def bring(self, proof: str, resource: str = "text_summary", description: str = "") -> "Bought":
        """Access with this proof."""
        body = self._body(resource, description)
        allowed = self.http.post("/access", json=body, headers={"PAYMENT-SIGNATURE": proof})
        identifier = allowed.json().get("transaction_id", "")
        return Bought(identifier, proof, body["revision_id"], allowed.status_code)

    def complete(self, bought: "Bought", **said: object) -> httpx.Response:
        body = {"revision_id": bought.revision_id, "outcome": "succeeded", "values": {}, **said}
        headers = {"PAYMENT-SIGNATURE": bought.proof}
        return self.http.post(f"/transactions/{bought.id}/complete", json=body, headers=headers)

    def fail(self, bought: "Bought", code: str = "no_luck") -> httpx.Response:
        body = {"revision_id": bought.revision_id, "outcome": "failed", "failure_code": code}
        headers = {"PAYMENT-SIGNATURE": bought.proof}
        return self.http.post(f"/transactions/{bought.id}/complete", json=body, headers=headers)

    def buy(self, payer: str = "good", resource: str = "text_summary") -> str:
        """A whole purchase; gives the transaction's id."""
        bought = self.authorize(payer, resource)
        self.complete(bought)
        return bought.id

    def _body(self, resource: str, description: str) -> Json:
        sold = {one.key: one for one in self.emulator.account.resources}[resource]
        url = f"https://seller.example/{resource.replace('_', '-')}"
        return {
            "revision_id": self.emulator.revision_id(resource),
            "resource": {"url": url, "mime_type": "application/json", "description": description},
            "settlement_asset": sold.revisions[-1].asset,
        }


@dataclass(frozen=True)
class Bought:
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
