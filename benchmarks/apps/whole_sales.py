"""The floor of the service inside the process: the calls and the writes of a sale. Not fit for use.

Two calls to a facilitator, four to a node, and eight writes, two of them synced (`kept_sales.py`), one after
the other. No signature and no answer is checked, no payment is found again, and no result is kept.
"""

import base64
import json
import secrets
from collections.abc import Callable, Generator, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from goods import PAY_TO, SERVICE
from kept_sales import SyncWrite, Write, open_async_sales, open_sales
from pyreqwest.client import Client, ClientBuilder, SyncClient, SyncClientBuilder
from two_calls import answer

from faregate.x402.headers import build_payment_required
from faregate.x402.models import Terms
from faregate.x402.tokens import TOKENS

JSON: Final = {"Content-Type": "application/json"}
UNSYNCED, SYNCED = False, True


@dataclass(frozen=True, slots=True)
class Resource:
    url: str = "http://127.0.0.1/report"
    description: str = ""
    mime_type: str = "application/json"


INSTRUCTIONS: Final = build_payment_required(
    Terms(TOKENS["test", "USDC"], 10_000, PAY_TO, 300), Resource(), "pay", secrets.token_hex(32)
)


@dataclass(frozen=True, slots=True)
class Call:
    """A POST whose answer is needed."""

    path: str
    body: object


Step = Call | bool
"""What a sale waits for: a call, or a write that is synced or not."""
Steps = Generator[Step, Any, None]


def ask_node(method: str, *params: object) -> Call:
    return Call("/rpc", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def authorize(payload: Any) -> Steps:
    """What is done before the work."""
    nonce = payload["payload"]["authorization"]["nonce"]
    yield UNSYNCED  # the claim
    yield ask_node("eth_call", {"data": f"0xe94a0102{0:064x}{nonce[2:]}"}, "latest")  # is it used?
    yield ask_node("eth_call", {"data": "0x70a08231"}, "latest")  # the payer's balance
    yield Call("/verify", {"paymentPayload": payload})
    yield UNSYNCED  # the authorization
    yield SYNCED  # the transaction's id, before work begins


def settle(payload: Any) -> Steps:
    """What is done after the work."""
    yield UNSYNCED  # the outcome, before the completion
    yield SYNCED  # the outcome and the attempt, before something is sent
    settled = yield Call("/settle", {"paymentPayload": payload})
    yield UNSYNCED  # the answer
    receipt = yield ask_node("eth_getTransactionReceipt", settled["transaction"])
    yield ask_node("eth_getBlockByNumber", receipt["result"]["blockNumber"], False)
    yield UNSYNCED  # the receipt
    yield UNSYNCED  # the settlement


def read_payload(proof: str) -> Any:
    return json.loads(base64.b64decode(proof))


class AsgiWholeSales:
    def __init__(self, app: Any) -> None:
        self.app = app
        self._client: Client | None = None
        self._write: Write | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/report":
            await self.app(scope, receive, send)
            return
        proof = next(
            (value.decode() for name, value in scope["headers"] if name == b"payment-signature"), None
        )
        if proof is None:
            await answer(send, 402, [(b"payment-required", INSTRUCTIONS.encode())], b"{}")
            return
        payload = read_payload(proof)
        await self._perform(authorize(payload), proof)
        held: list[MutableMapping[str, Any]] = []

        async def hold(message: MutableMapping[str, Any]) -> None:
            held.append(message)

        await self.app(scope, receive, hold)
        result = b"".join(message.get("body", b"") for message in held)
        await self._perform(settle(payload), proof)
        headers = [*held[0]["headers"], (b"payment-response", proof[-64:].encode())]
        await answer(send, held[0]["status"], headers, result)

    async def _perform(self, steps: Steps, proof: str) -> None:
        if self._client is None or self._write is None:
            self._client, self._write = ClientBuilder().no_proxy().build(), open_async_sales()
        reply = None
        try:
            while True:
                step = steps.send(reply)
                if isinstance(step, bool):
                    reply = await self._write(proof[-64:], step)
                else:
                    reply = await self._call(self._client, step)
        except StopIteration:
            return

    async def _call(self, client: Client, call: Call) -> Any:
        request = client.post(SERVICE + call.path).headers(JSON)
        reply = await request.body_bytes(json.dumps(call.body).encode()).build().send()
        return json.loads((await reply.bytes()).to_bytes())


class WsgiWholeSales:
    def __init__(self, app: Any) -> None:
        self.app = app
        self._client: SyncClient = SyncClientBuilder().no_proxy().build()
        self._write: SyncWrite = open_sales()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/report":
            free: Iterable[bytes] = self.app(environ, start_response)
            return free
        proof = environ.get("HTTP_PAYMENT_SIGNATURE")
        if proof is None:
            start_response("402 Payment Required", [("PAYMENT-REQUIRED", INSTRUCTIONS)])
            return [b"{}"]
        payload = read_payload(proof)
        self._perform(authorize(payload), proof)
        held: list[tuple[str, list[tuple[str, str]]]] = []
        parts = self.app(environ, lambda line, headers, _=None: held.append((line, headers)))
        result = b"".join(parts)
        getattr(parts, "close", lambda: None)()
        self._perform(settle(payload), proof)
        line, headers = held[0]
        start_response(line, [*headers, ("PAYMENT-RESPONSE", proof[-64:])])
        return [result]

    def _perform(self, steps: Steps, proof: str) -> None:
        reply = None
        try:
            while True:
                step = steps.send(reply)
                reply = self._write(proof[-64:], step) if isinstance(step, bool) else self._call(step)
        except StopIteration:
            return

    def _call(self, call: Call) -> Any:
        request = self._client.post(SERVICE + call.path).headers(JSON)
        return json.loads(
            request.body_bytes(json.dumps(call.body).encode()).build().send().bytes().to_bytes()
        )
