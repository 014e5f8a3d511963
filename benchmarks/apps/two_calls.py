"""The floor: middlewares that make the two calls and nothing else, for ASGI and WSGI. Not fit for use.

One payment may run the work twice; nothing of a reply is checked but its status; no retry, no limits, and
whoever leaves early cancels the work. A crash loses the transaction, unless the harness names a journal:
then what a journal writes is written too (`kept_sales.py`).
"""

import json
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from goods import KEY, SERVICE
from kept_sales import Write, open_async_sales, open_sales
from pyreqwest.client import Client, ClientBuilder, SyncClient, SyncClientBuilder

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Headers = list[tuple[str, str]]

ROOT = f"{SERVICE}/merchant/v1"
REVISION = "acr_000000000000700080000000000000a1"
ACCESS = {
    "revision_id": REVISION,
    "resource": {"url": "http://127.0.0.1/report", "mime_type": "application/json", "description": ""},
    "settlement_asset": "USDC",
}


def build_completion(status: int, size: int) -> dict[str, object]:
    facts = {"response_status": status, "response_size_bytes": size}
    return {"revision_id": REVISION, "outcome": "succeeded", "values": {}, "resource_execution": facts}


def build_headers(proof: str | None) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    return headers if proof is None else {**headers, "PAYMENT-SIGNATURE": proof}


class AsgiTwoCalls:
    def __init__(self, app: Any) -> None:
        self.app = app
        self._client: Client | None = None
        self._write: Write | None = None

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/report":
            await self.app(scope, receive, send)
            return
        proof = next(
            (value.decode() for name, value in scope["headers"] if name == b"payment-signature"), None
        )
        await self._keep(proof, False)
        status, instructions, body = await self._post("/access", ACCESS, proof, "payment-required")
        if status != 200:
            await answer(send, status, [(b"payment-required", instructions)], body)
            return
        await self._keep(proof, True)
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        await self.app(scope, receive, hold)
        if not held:  # the payer has left, and Django answers nothing
            return
        result = b"".join(message.get("body", b"") for message in held)
        path = f"/transactions/{json.loads(body)['transaction_id']}/complete"
        completion = build_completion(held[0]["status"], len(result))
        await self._keep(proof, True)
        _, receipt, _ = await self._post(path, completion, proof, "payment-response")
        await self._keep(proof, False)
        await answer(send, held[0]["status"], [*held[0]["headers"], (b"payment-response", receipt)], result)

    async def _keep(self, proof: str | None, is_synced: bool) -> None:
        if self._write is None:
            self._write = open_async_sales()
        if proof is not None:
            await self._write(proof[-64:], is_synced)

    async def _post(
        self, path: str, body: object, proof: str | None, wanted: str
    ) -> tuple[int, bytes, bytes]:
        """Return status, the header that is wanted, and body."""
        if self._client is None:
            self._client = ClientBuilder().no_proxy().build()
        request = self._client.post(ROOT + path).headers(build_headers(proof))
        reply = await request.body_bytes(json.dumps(body).encode()).build().send()
        return reply.status, reply.headers.get(wanted, "").encode(), (await reply.bytes()).to_bytes()


async def answer(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class WsgiTwoCalls:
    def __init__(self, app: Any) -> None:
        self.app = app
        self._client: SyncClient = SyncClientBuilder().no_proxy().build()
        self._write = open_sales()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/report":
            free: Iterable[bytes] = self.app(environ, start_response)
            return free
        proof = environ.get("HTTP_PAYMENT_SIGNATURE")
        self._keep(proof, False)
        status, instructions, body = self._post("/access", ACCESS, proof, "payment-required")
        if status != 200:
            start_response(f"{status} Payment Required", [("PAYMENT-REQUIRED", instructions)])
            return [body]
        self._keep(proof, True)
        held: list[tuple[str, Headers]] = []
        parts = self.app(environ, lambda line, headers, _=None: held.append((line, headers)))
        result = b"".join(parts)
        getattr(parts, "close", lambda: None)()
        line, headers = held[0]
        path = f"/transactions/{json.loads(body)['transaction_id']}/complete"
        self._keep(proof, True)
        _, receipt, _ = self._post(
            path, build_completion(int(line[:3]), len(result)), proof, "payment-response"
        )
        self._keep(proof, False)
        start_response(line, [*headers, ("PAYMENT-RESPONSE", receipt)])
        return [result]

    def _keep(self, proof: str | None, is_synced: bool) -> None:
        if proof is not None:
            self._write(proof[-64:], is_synced)

    def _post(self, path: str, body: object, proof: str | None, wanted: str) -> tuple[int, str, bytes]:
        """Return status, the header that is wanted, and body."""
        request = self._client.post(ROOT + path).headers(build_headers(proof))
        reply = request.body_bytes(json.dumps(body).encode()).build().send()
        return reply.status, reply.headers.get(wanted, ""), reply.bytes().to_bytes()
