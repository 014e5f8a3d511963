"""Sellers written by hand, one that does right and some that do not, each with the `get` of a test client."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from faregate.core.models import Headers, Response, WireRequest
from faregate.emulator import TEST_KEY, Emulator
from faregate.merchant.requests import ROOT


@dataclass
class Reply:
    """As httpx and Django have it."""

    status_code: int
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])


RESULT = Reply(200, b"Sunny.")


class Honest:
    """Sells one resource at any path: access, work, complete, release."""

    sells = "daily_report"

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        proof = (headers or {}).get("PAYMENT-SIGNATURE")
        access = self._access(path, proof)
        if access.status == 402:
            return _unpaid(access)
        transaction = json.loads(access.body)["transaction_id"]
        return RESULT if transaction is None else self._serve(path, transaction, str(proof))

    def _serve(self, path: str, transaction: str, proof: str) -> Reply:
        done = self._complete(transaction, proof)
        paid = done.first("payment-response")
        if done.status == 200 and paid is not None:
            return Reply(200, RESULT.content, {"PAYMENT-RESPONSE": paid})
        return _unpaid(self._access(path, None)) if done.status == 200 else Reply(done.status, done.body)

    def _access(self, path: str, proof: str | None) -> Response:
        return self._post(
            "/access",
            proof,
            revision_id=self._emulator.revision_id(self.sells),
            resource={"url": f"https://seller.example{path}", "mime_type": "text/plain"},
            settlement_asset="USDC",
        )

    def _complete(self, transaction: str, proof: str) -> Response:
        return self._post(
            f"/transactions/{transaction}/complete",
            proof,
            revision_id=self._emulator.revision_id(self.sells),
            outcome="succeeded",
            values={},
        )

    def _post(self, path: str, proof: str | None, **body: object) -> Response:
        headers: Headers = (("authorization", f"Bearer {TEST_KEY}"),)
        if proof is not None:
            headers = (*headers, ("payment-signature", proof))
        return self._emulator.respond(WireRequest("POST", ROOT + path, headers, json.dumps(body).encode()))


class Free(Honest):
    sells = "free_notes"


class Trusting(Honest):
    """Releases what is authorized, and never completes it."""

    def _serve(self, path: str, transaction: str, proof: str) -> Reply:
        return RESULT


class Hasty(Honest):
    """Completes, and does not wait for the payment to settle."""

    def _serve(self, path: str, transaction: str, proof: str) -> Reply:
        self._complete(transaction, proof)
        return RESULT


class Late(Honest):
    """Releases first, and completes when the payer comes back."""

    def _serve(self, path: str, transaction: str, proof: str) -> Reply:
        if hasattr(self, "released"):
            return super()._serve(path, transaction, proof)
        self.released = True
        return RESULT


class Blind(Honest):
    """Asks nobody whether the proof is good."""

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        return RESULT if headers else super().get(path)


class Greedy(Honest):
    """Asks to be paid again although the payment is taken, or being taken."""

    def _serve(self, path: str, transaction: str, proof: str) -> Reply:
        self._complete(transaction, proof)
        return _unpaid(self._access(path, None))


class Forgetful(Honest):
    """Fails without telling the service."""

    def _serve(self, path: str, transaction: str, proof: str) -> Reply:
        return Reply(500)


def _unpaid(access: Response) -> Reply:
    return Reply(402, access.body, {"PAYMENT-REQUIRED": str(access.first("payment-required"))})
