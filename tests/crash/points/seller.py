"""The processes that are killed: a seller under uvicorn, and one that sweeps beside it.

Their times are short, so that whoever takes over need not wait long; the order of things is the same.
"""

import asyncio
import os
import random
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faregate.cli.sweep import sweep_repeatedly
from faregate.core import completion
from faregate.core.interfaces import Journal
from faregate.emulator import TEST_KEY
from faregate.journals.durations import JournalPolicy
from faregate.journals.urls import JournalContext
from faregate.paywall import Paywall
from faregate.starlette import PaywallMiddleware, paid
from faregate.transports.http1 import Http1Transport
from tests.crash import stores
from tests.crash.points import mid_write, mutants
from tests.crash.points.kill_points import Death
from tests.crash.points.kill_wrappers import DyingJournal, DyingTransport, Kills, dying_server
from tests.support.lines import append_line

CONTENT = "paid content"
SELLS = "daily_report"
SELLER = "https://seller.example"
PATH = "/paid"
TIMEOUT = 0.5
WORK_SECONDS = 0.4
WORKS_FOR = 0.002
SWEEP_EVERY = 0.03
TERMS = JournalPolicy(claim_lease=0.6, completion_lease=0.7, initial_backoff=0.03, max_backoff=0.2)


@dataclass(frozen=True)
class Life:
    """One process: where it dies, and what it works on. `service` is the trial's own address of it."""

    journal: str
    service: str
    executions: Path
    said: Path
    death: Death | None = None
    visit: int = 1
    broken: str = ""


def serve(life: Life, listener: socket.socket) -> None:
    """A seller, until it is killed."""
    kills = _begin(life)
    paywall = _paywall(life, kills)

    async def work(request: Request) -> Response:
        append_line(life.executions, transaction=request.state.payment.transaction_id, pid=os.getpid())
        kills.reach("work:begin")
        await asyncio.sleep(WORKS_FOR)
        kills.reach("work:middle")
        result = JSONResponse({"result": CONTENT, "run": os.urandom(8).hex()})
        if request.query_params.get("work") == "fails":
            result = JSONResponse({"sorry": True}, 500)
        kills.reach("work:end")
        return result

    async def sweep(_request: Request) -> Response:
        return JSONResponse((await paywall.asweep()).looked_at)

    routes = [Route(PATH, paid(SELLS)(work)), Route("/sweep", sweep)]
    app = Starlette(routes=routes, middleware=[Middleware(PaywallMiddleware, paywall)])
    uvicorn.Server(make_server_config(dying_server(app, kills))).run(sockets=[listener])


def make_server_config(app: Any) -> uvicorn.Config:
    # asyncio writes at once what uvloop would keep until the loop comes round again. Without "none", each
    # process would import a library for websockets.
    return uvicorn.Config(
        app, loop="asyncio", lifespan="off", ws="none", interface="asgi3", log_level="warning"
    )


def sweep(life: Life) -> None:
    """What `faregate sweep --watch` does, until it is killed."""
    sweep_repeatedly(_paywall(life, _begin(life)), SWEEP_EVERY, lambda _sentence: None)


def _begin(life: Life) -> Kills:
    said = os.open(life.said, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(said, 1)
    os.dup2(said, 2)
    random.seed()
    kills = Kills(life.death, life.visit)
    mid_write.watch(kills)
    mutants.break_it(life.broken)
    completion.COMPLETE_PAUSES = (0.01, 0.03)
    return kills


def _paywall(life: Life, kills: Kills) -> Paywall:
    def journal(context: JournalContext) -> Journal:
        dying: Any = DyingJournal(stores.open_journal(life.journal, context.namespace, TERMS), kills)
        return dying  # type: ignore[no-any-return]

    return Paywall(
        api_key=TEST_KEY,
        base_url=life.service,
        public_url=SELLER,
        environ={},
        settle_wait=0,
        journal=journal,
        transport=DyingTransport(Http1Transport(), kills),
        timeout=TIMEOUT,
        max_work_seconds=WORK_SECONDS,
    )
