"""Serve a seller on a socket: `python -m tests.crash.clients.seller LISTENER`, until stdin ends.

Behind this project's paywall or behind the x402 middleware. A worker that died is replaced at once.
"""

import asyncio
import os
import select
import socket
import sys

import uvicorn
from fastapi import Depends, FastAPI
from x402 import x402ResourceServer
from x402.http import FacilitatorConfig, HTTPFacilitatorClient
from x402.http.middleware.fastapi import PaymentMiddlewareASGI
from x402.http.types import PaymentOption, RouteConfig
from x402.mechanisms.evm.exact.server import ExactEvmScheme

from faregate.fastapi import PaywallMiddleware, paid
from tests.support.lines import append_line
from tests.support.processes import fork, lifeline

DELAYS = (0, 3, 10, 60)
"""Seconds until a payment settles, by route."""
APPLICATION, EXECUTIONS, SERVICE, PAY_TO = (
    "CLIENTS_APPLICATION",
    "CLIENTS_EXECUTIONS",
    "CLIENTS_SERVICE",
    "CLIENTS_PAY_TO",
)
WORKERS = 2
WORK_SECONDS = 0.2
_POLL = 0.02


def make_faregate() -> FastAPI:
    app = FastAPI()
    for delay in DELAYS:
        add_route(app, delay, dependencies=[Depends(paid(f"after_{delay}"))])
    app.add_middleware(PaywallMiddleware)
    return app


def make_x402() -> FastAPI:
    app = FastAPI()
    for delay in DELAYS:
        add_route(app, delay)
    server = x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=os.environ[SERVICE])))
    server.register("eip155:84532", ExactEvmScheme())  # type: ignore[no-untyped-call,arg-type]  # as its README does
    price = PaymentOption(
        scheme="exact",
        network="eip155:84532",
        price="$0.01",
        pay_to=os.environ[PAY_TO],
        max_timeout_seconds=300,
    )
    routes = {f"GET /orders/{delay}/*": RouteConfig(accepts=price) for delay in DELAYS}
    app.add_middleware(PaymentMiddlewareASGI, routes=routes, server=server)
    return app


def add_route(app: FastAPI, delay: int, **route: object) -> None:
    async def sell(order: int) -> dict[str, int]:
        append_line(os.environ[EXECUTIONS], order=order)
        await asyncio.sleep(WORK_SECONDS)
        return {"order": order}

    app.get(f"/orders/{delay}/{{order}}", **route)(sell)  # type: ignore[arg-type]


APPLICATIONS = {"faregate": make_faregate, "x402": make_x402}


def main(fd: int) -> None:
    with socket.socket(fileno=fd) as listener:
        lifeline()
        workers = [fork(lambda: _serve(listener)) for _ in range(WORKERS)]
        while not select.select([sys.stdin], [], [], _POLL)[0]:
            workers = [fork(lambda: _serve(listener)) if each.look() == "dead" else each for each in workers]
        for worker in workers:
            worker.kill()


def _serve(listener: socket.socket) -> None:
    app = APPLICATIONS[os.environ[APPLICATION]]()
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(int(sys.argv[1]))
