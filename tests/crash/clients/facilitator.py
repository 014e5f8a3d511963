"""A facilitator for the x402 middleware. It sends a payment once, and answers when the chain would."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.lines import append_line

_KIND = {"x402Version": 2, "scheme": "exact", "network": "eip155:84532"}


def run(listener: socket.socket, charges: Path) -> None:
    """Serve until killed; each payment that was sent is a line of `charges`."""
    sent: dict[str, float] = {}

    async def supported(_: Request) -> Response:
        return JSONResponse({"kinds": [_KIND], "extensions": [], "signers": {}})

    async def verify(request: Request) -> Response:
        payment = await _read_authorization(request)
        used = payment["nonce"] in sent
        answer: dict[str, Any] = {"isValid": not used, "payer": payment["from"]}
        return JSONResponse({**answer, "invalidReason": "nonce_used"} if used else answer)

    async def settle(request: Request) -> Response:
        body = await request.json()
        payment = body["paymentPayload"]["payload"]["authorization"]
        now = asyncio.get_running_loop().time()
        if payment["nonce"] not in sent:
            sent[payment["nonce"]] = now + int(body["paymentPayload"]["resource"]["url"].split("/")[-2])
            append_line(charges, payer=payment["from"].lower())
        await asyncio.sleep(max(sent[payment["nonce"]] - now, 0))
        return JSONResponse(
            {
                "success": True,
                "transaction": payment["nonce"],
                "network": _KIND["network"],
                "payer": payment["from"],
            }
        )

    routes = [
        Route("/supported", supported),
        Route("/verify", verify, methods=["POST"]),
        Route("/settle", settle, methods=["POST"]),
    ]
    config = uvicorn.Config(Starlette(routes=routes), log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


async def _read_authorization(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await request.body())["paymentPayload"]["payload"]["authorization"]
    return found
