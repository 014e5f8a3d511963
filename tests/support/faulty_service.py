"""The emulator as a real HTTP server that can be told to misbehave, call by call."""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from faregate.core.models import Headers, Response, WireRequest
from faregate.emulator import Emulator

Fault = Callable[[Callable[[], Response]], Response | None]
"""Given a way to really ask the service, what is sent instead; None breaks off."""

JSON: Headers = (("content-type", "application/json"),)


def answers(status: int, body: Any = None, *headers: tuple[str, str]) -> Fault:
    """This, without asking the service."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda _ask: Response(status, (*JSON, *headers), content)


def changes(change: Callable[[Response], Response]) -> Fault:
    """What the service says, changed on its way."""
    return lambda ask: change(ask())


def lost_before(_ask: Callable[[], Response]) -> None:
    """The call is cut off before the service acts."""


def lost_after(ask: Callable[[], Response]) -> None:
    """The service acts, and its answer is cut off."""
    ask()


def without(name: str) -> Fault:
    """The service's answer without one header."""
    return changes(
        lambda reply: replace(reply, headers=tuple(h for h in reply.headers if h[0].lower() != name.lower()))
    )


def with_body(**fields: Any) -> Fault:
    """The service's answer with some fields of its body replaced."""
    return changes(
        lambda reply: replace(reply, body=json.dumps({**json.loads(reply.body), **fields}).encode())
    )


@dataclass
class Service:
    """An ASGI app. `faults` of an operation are used up in order, one per call."""

    emulator: Emulator = field(default_factory=Emulator)
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    delay: float = 0.0

    def fails(self, operation: str, *faults: Fault) -> None:
        """The next calls of `access`, `complete`, `transaction` or `contracts` go wrong in this way."""
        self.faults.setdefault(operation, deque()).extend(faults)

    def count(self, operation: str) -> int:
        return self.asked.count(operation)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        request = await _read(scope, receive)
        operation = _operation(request)
        self.asked.append(operation)
        if self.delay:
            await asyncio.sleep(self.delay)
        planned = self.faults.get(operation)
        reply: Response | None
        if planned:
            reply = planned.popleft()(lambda: self.emulator.respond(request))
        else:
            reply = self.emulator.respond(request)
        if reply is None:
            # Silence would be the same to the client, but only after its time limit, which is generous here.
            # ASGI has no word for this: `send` is a method of uvicorn's object that holds the connection.
            send.__self__.transport.close()
            await receive()  # until the connection is gone: else uvicorn would answer 500
            return
        headers = [(name.lower().encode(), value.encode()) for name, value in reply.headers]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})


async def _read(scope: Any, receive: Any) -> WireRequest:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    query = scope["query_string"].decode()
    path = scope["raw_path"].decode() + (f"?{query}" if query else "")
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
    return WireRequest(scope["method"], path, headers, body)


def _operation(request: WireRequest) -> str:
    path = request.path.partition("?")[0]
    if path.endswith("/access"):
        return "access"
    if "/resource-executions/" in path:
        return "execution"
    if path.endswith("/complete"):
        return "complete"
    if "/transactions/" in path:
        return "transaction"
    return path.rsplit("/", 1)[1]
