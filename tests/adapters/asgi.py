"""Paywalls over an embedded emulator, and requests to ASGI applications."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from faregate.emulator import Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.paywall import Paywall
from faregate.starlette import PaywallMiddleware, paid
from tests.servers.http import serving

CONTENT = "paid content"


class SlowToComplete(EmbeddedTransport):
    async def asend(self, method: str, url: str, *rest: Any) -> Any:
        if url.endswith("/complete"):
            await anyio.sleep(1.2)
        return await super().asend(method, url, *rest)


def a_paywall(emulator: Emulator | None = None, *, slow: bool = False, **settings: Any) -> Paywall:
    transport: Any = (SlowToComplete if slow else EmbeddedTransport)(emulator or Emulator())
    return Paywall(
        base_url="http://service.example",
        api_key="svc_test_emulator",
        environ={},
        transport=transport,
        **{"settle_wait": 0.0, **settings},
    )


@contextmanager
def calling(app: Any, **options: Any) -> Generator[httpx.Client]:
    with serving(app, lifespan="off") as url, httpx.Client(base_url=url, trust_env=False, **options) as http:
        yield http


def buy(http: httpx.Client, path: str, method: str = "GET") -> httpx.Response:
    unpaid = http.request(method, path)
    assert unpaid.status_code == 402, (unpaid.status_code, unpaid.text)
    proof = Wallet().pay(unpaid.headers["payment-required"])
    return http.request(method, path, headers={"PAYMENT-SIGNATURE": proof})


def shop_of(*routes: Any, inside: Sequence[Any] = (), **settings: Any) -> Starlette:
    """A Starlette application behind a paywall, with the middleware `inside` it."""
    layers = [Middleware(PaywallMiddleware, paywall=a_paywall(**settings)), *map(Middleware, inside)]
    return Starlette(routes=routes, middleware=layers)


@paid("daily_report")
async def report(request: Request) -> Response:
    return PlainTextResponse(CONTENT)


class Plain:
    """An ASGI app without a framework: gives the content away wherever it is asked."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.runs += 1
        head = [(b"content-length", str(len(CONTENT)).encode()), (b"access-control-allow-origin", b"*")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": CONTENT.encode()})


def http_scope(path: str, proof: str | None = None, **changes: Any) -> dict[str, Any]:
    headers = [(b"host", b"x")] + ([] if proof is None else [(b"payment-signature", proof.encode())])
    scope = {"type": "http", "asgi": {"version": "3.0"}, "method": "GET", "path": path, "headers": headers}
    return {**scope, "scheme": "http", "query_string": b"", "server": ("127.0.0.1", 80), **changes}


async def never() -> Any:
    await anyio.sleep_forever()


def collect(sent: list[Any]) -> Any:
    async def send(message: Any) -> None:
        sent.append(message)

    return send


def ask(app: Any, path: str, proof: str | None = None, **scope: Any) -> list[Any]:
    """Return what the application sends for one request."""
    sent: list[Any] = []
    asyncio.run(app(http_scope(path, proof, **scope), never, collect(sent)))
    return sent


def proof_for(app: Any, path: str = "/", **scope: Any) -> str:
    """Pay what the application asks for this request."""
    unpaid = ask(app, path, **scope)
    assert unpaid[0]["status"] == 402
    return Wallet().pay(header(unpaid, b"payment-required"))


def header(sent: list[Any], name: bytes) -> str:
    return str(next(value.decode() for key, value in sent[0]["headers"] if key == name))


async def connecting() -> Any:
    return {"type": "websocket.connect"}
