"""What may go wrong with one call of the service. Whether it acted is a fault's own matter."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from faregate.core.models import Response
from tests.crash.points.http_server import Cut, Reply

Act = Callable[[], Response]
Fault = Callable[[Act], Awaitable[Reply]]
SILENCE = 0.7
"""Seconds: longer than the shop waits for an answer."""
SLOWNESS = 0.1


async def _reset_before(_act: Act) -> Reply:
    return Cut()


async def _reset_after(act: Act) -> Reply:
    act()
    return Cut()


async def _silent_before(_act: Act) -> Reply:
    await asyncio.sleep(SILENCE)
    return Cut()


async def _silent_after(act: Act) -> Reply:
    act()
    await asyncio.sleep(SILENCE)
    return Cut()


async def _late(act: Act) -> Reply:
    """It acts long after the shop gave up waiting."""
    await asyncio.sleep(SILENCE)
    act()
    return Cut()


async def _slow(act: Act) -> Reply:
    await asyncio.sleep(SLOWNESS)
    return act()


async def _half(act: Act) -> Reply:
    return Cut(act())


async def _error_before(_act: Act) -> Reply:
    return _said(500, {"code": "internal_error", "message": "broken"})


async def _error_after(act: Act) -> Reply:
    act()
    return _said(500, {"code": "internal_error", "message": "broken"})


async def _busy(_act: Act) -> Reply:
    return _said(429, {"code": "rate_limited", "message": "later"})


async def _garbage(act: Act) -> Reply:
    return replace(act(), body=b"<html>")


async def _bare(act: Act) -> Reply:
    """Without the headers that a payer needs."""
    reply = act()
    kept = tuple(pair for pair in reply.headers if not pair[0].lower().startswith("payment-"))
    return replace(reply, headers=kept)


async def _no_receipt(act: Act) -> Reply:
    return _with(act(), receipt=None)


async def _another(act: Act) -> Reply:
    """About a transaction of somebody else."""
    return _with(
        act(),
        transaction_id="txn_0197a0b1c2d37e4f8a9b0c1d2e3f4a5b",
        id="txn_0197a0b1c2d37e4f8a9b0c1d2e3f4a5b",
    )


async def _pending(act: Act) -> Reply:
    """202 although the service only acted as always."""
    return replace(act(), status=202)


def _said(status: int, body: Any) -> Response:
    return Response(status, (("Content-Type", "application/json"),), json.dumps(body).encode())


def _with(reply: Response, **fields: Any) -> Response:
    try:
        body = json.loads(reply.body)
    except ValueError:
        return reply
    known = {name: value for name, value in fields.items() if name in body}
    return replace(reply, body=json.dumps({**body, **known}).encode())


NETWORK: dict[str, Fault] = {
    "reset before": _reset_before,
    "reset after": _reset_after,
    "silent before": _silent_before,
    "silent after": _silent_after,
    "late": _late,
    "slow": _slow,
    "half": _half,
}
SERVICE: dict[str, Fault] = {
    "500 before": _error_before,
    "500 after": _error_after,
    "429": _busy,
    "garbage": _garbage,
    "bare": _bare,
}
OF_COMPLETE: dict[str, Fault] = {"no receipt": _no_receipt, "another": _another, "pending": _pending}
FAULTS: dict[str, Fault] = {**NETWORK, **SERVICE, **OF_COMPLETE}
"""Every fault by its name."""
