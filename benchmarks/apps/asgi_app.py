"""The seller's app as a plain ASGI function."""

import json
from typing import Any

from goods import HEALTH, REPORT, build_paywall
from two_calls import AsgiTwoCalls, answer

from faregate.asgi import PaywallMiddleware

JSON = [(b"content-type", b"application/json")]


async def bare_app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
    else:
        await answer(send, 200, JSON, json.dumps(REPORT if scope["path"] == "/report" else HEALTH).encode())


def bare() -> Any:
    return bare_app


def by_hand() -> Any:
    return AsgiTwoCalls(bare_app)


def faregate() -> Any:
    return PaywallMiddleware(bare_app, build_paywall(), offers={"/report": "report"})
