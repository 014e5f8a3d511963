"""An ASGI application without a framework, and requests to it."""

import asyncio
from typing import Any

from tests.adapters.asgi import CONTENT, collect, http_scope, never


class Plain:
    """An ASGI app without a framework: gives the content away wherever it is asked."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.runs += 1
        head = [(b"content-length", str(len(CONTENT)).encode()), (b"access-control-allow-origin", b"*")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": CONTENT.encode()})


def ask(app: Any, path: str, proof: str | None = None, **scope: Any) -> list[Any]:
    sent: list[Any] = []
    asyncio.run(app(http_scope(path, proof, **scope), never, collect(sent)))
    return sent
