"""The floor: a middleware that makes the two calls and nothing else. It is not fit for use.

No journal, so one payment may run the work twice and a crash loses the transaction; nothing of a reply
is checked but its status; no retry, no limits, and whoever leaves early cancels the work.
"""

import json
import os
from collections.abc import MutableMapping
from typing import Any

from goods import shop
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.response import Response

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]

UPSTREAM = os.environ["BENCH_UPSTREAM"] + "/merchant/v1"
REVISION = "acr_000000000000700080000000000000a1"
ACCESS = {
    "revision_id": REVISION,
    "resource": {"url": "http://127.0.0.1/report", "mime_type": "application/json", "description": ""},
    "settlement_asset": "USDC",
}


class TwoCalls:
    def __init__(self, app: Any) -> None:
        self.app = app
        self._client: Client | None = None

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/report":
            await self.app(scope, receive, send)
            return
        proof = next((value for name, value in scope["headers"] if name == b"payment-signature"), None)
        access = await self._post("/access", ACCESS, proof)
        body = (await access.bytes()).to_bytes()
        if access.status != 200:
            headers = [(b"payment-required", access.headers["payment-required"].encode())]
            await _answer(send, access.status, headers, body)
            return
        await self._sell(scope, receive, send, json.loads(body)["transaction_id"], proof)

    async def _sell(
        self, scope: Scope, receive: Any, send: Any, transaction: str, proof: bytes | None
    ) -> None:
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        await self.app(scope, receive, hold)
        body = b"".join(message.get("body", b"") for message in held)
        facts = {"response_status": held[0]["status"], "response_size_bytes": len(body)}
        told = {"revision_id": REVISION, "outcome": "succeeded", "values": {}, "resource_execution": facts}
        completed = await self._post(f"/transactions/{transaction}/complete", told, proof)
        receipt = (b"payment-response", completed.headers["payment-response"].encode())
        await completed.bytes()
        await _answer(send, held[0]["status"], [*held[0]["headers"], receipt], body)

    async def _post(self, path: str, body: object, proof: bytes | None) -> Response:
        if self._client is None:
            self._client = ClientBuilder().no_proxy().build()
        headers = {"Authorization": "Bearer svc_test_benchmark", "Content-Type": "application/json"}
        if proof is not None:
            headers["PAYMENT-SIGNATURE"] = proof.decode()
        request = self._client.post(UPSTREAM + path).headers(headers).body_bytes(json.dumps(body).encode())
        return await request.build().send()


async def _answer(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


app = shop()
app.add_middleware(TwoCalls)
