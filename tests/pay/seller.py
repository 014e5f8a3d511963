"""A seller that sends scripted replies over real sockets, and records the requests."""

import json
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from faregate.core.models import Header, Response
from faregate.merchant.models import AccessResource
from faregate.x402.headers import build_payment_required, build_payment_response
from faregate.x402.models import Terms
from faregate.x402.tokens import TOKENS, Token
from tests.support.headers import decode_header, encode_header

PAY_TO = "0x1111111111111111111111111111111111111111"
USDC = TOKENS["test", "USDC"]
LIVE_USDC = TOKENS["live", "USDC"]
HASH = "0x" + "ab" * 32

Reply = Response | None
"""None ends the connection without an answer."""


@dataclass(frozen=True)
class ReceivedRequest:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def proof(self) -> str | None:
        return self.headers.get("payment-signature")


@dataclass
class Seller:
    """Each request gets the next reply of `script`."""

    url: str
    script: deque[Reply] = field(default_factory=deque)
    received: list[ReceivedRequest] = field(default_factory=list)

    def script_replies(self, *replies: Reply) -> None:
        self.script = deque(replies)
        self.received = []

    @property
    def proofs(self) -> list[str]:
        return [one.proof for one in self.received if one.proof is not None]


def require_payment(token: Token = USDC, amount: int = 10_000, reason: str = "pay first") -> Response:
    """Build a 402 with the emulator's instructions, and the same reason in its body."""
    terms = Terms(token, amount, PAY_TO, 60)
    resource = AccessResource(url="https://seller.example/report", mime_type="application/json")
    header = build_payment_required(terms, resource, reason, "ab" * 32)
    return build_402(decode_header(header), reason)


def build_402(instructions: Any, reason: str = "so it is") -> Response:
    """Build a 402 with any instructions."""
    header = encode_header(instructions)
    return build_json_reply(402, "payment_required", ("PAYMENT-REQUIRED", header), message=reason)


def get_instructions(reply: Response) -> Any:
    return decode_header(reply.first("payment-required") or "")


def deliver(body: bytes = b"the result", *, success: bool = True) -> Response:
    """Build a 200 with a payment response."""
    header = build_payment_response(Terms(USDC, 10_000, PAY_TO, 60), PAY_TO, HASH, 10_000)
    if not success:
        changed = {**decode_header(header), "success": False, "errorReason": "no"}
        header = encode_header(changed)
    return Response(200, (("Content-Type", "text/plain"), ("PAYMENT-RESPONSE", header)), body)


def build_json_reply(status: int, code: str, *headers: Header, **fields: str) -> Response:
    """Build a reply with a body of the shape `{code, message}`."""
    body = json.dumps({"code": code, "message": "so it is", **fields}).encode()
    return Response(status, (("Content-Type", "application/json"), *headers), body)


@contextmanager
def run_seller() -> Generator[Seller]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            seller.received.append(ReceivedRequest(self.command, self.path, headers, body))
            reply = seller.script.popleft()
            self.close_connection = True
            if reply is None:
                return
            self.send_response(reply.status)
            for name, value in (*reply.headers, ("Content-Length", str(len(reply.body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PUT = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    seller = Seller(f"http://127.0.0.1:{server.server_port}/report")
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield seller
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
