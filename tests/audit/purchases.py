"""Purchases over each backend."""

from typing import Any

from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.merchant.client import MerchantClient
from tests.adapters.asgi import collect, header, http_scope, never

BACKENDS = ["asyncio", "trio"]


async def asked(app: Any, path: str, proof: str | None = None) -> list[Any]:
    sent: list[Any] = []
    await app(http_scope(path, proof), never, collect(sent))
    return sent


async def bought(app: Any, path: str = "/") -> tuple[int, bytes]:
    """Pay and ask: what leaves, and all of it."""
    proof = Wallet().pay(header(await asked(app, path), b"payment-required"))
    sent = await asked(app, path, proof)
    return sent[0]["status"], b"".join(message["body"] for message in sent[1:])


def outcomes(emulator: Emulator) -> list[str]:
    """How every transaction of the service stands."""
    client = MerchantClient(TEST_KEY, "http://service.example", transport=EmbeddedTransport(emulator))
    return [transaction.status or "" for transaction in client.iter_transactions()]
