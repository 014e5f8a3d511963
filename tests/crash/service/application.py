"""An application with the service inside its process: it dies at the points of the rules, and at its own."""

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faregate.core.interfaces import Journal
from faregate.journals.policy import JournalContext
from faregate.journals.registry import journal_from_url
from faregate.paywall import Paywall
from faregate.starlette import PaywallMiddleware, paid
from tests.crash.points.kill_wrappers import DyingJournal, dying_server
from tests.crash.stores import KEYS
from tests.support.lines import append_line

RUNS: Final = "runs.jsonl"
CONTENT: Final = "paid content"
WORK_SECONDS: Final = 0.15
_JOURNAL: Final = ("claim", "record_transaction", "record_outcome", "record_settlement", "schedule_retry")
OWN_POINTS: Final = (
    *(f"{call}:{place}" for call in _JOURNAL for place in ("before", "after")),
    *("work:begin", "work:end", "response:before", "response:head", "response:body"),
)
"""Where the paywall and the handler may die, besides the points of the rules."""


class _Kills(Protocol):
    """What dies at its points."""

    @property
    def reach(self) -> Callable[[str], None]: ...


def sell(settings: dict[str, Any], log: Path, listener: socket.socket, kills: Any) -> None:
    """Sell until somebody ends this process. The settings of the service are in a file beside its log."""
    folder, config_file = log.parent, log.with_suffix(".toml")
    config_file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    paywall = _build_paywall(settings["database"], config_file, kills)
    config = uvicorn.Config(
        dying_server(_build_app(paywall, folder, kills), kills),
        loop="asyncio",
        ws="none",
        interface="asgi3",
        log_level="warning",
    )
    uvicorn.Server(config).run(sockets=[listener])


def _build_paywall(database: str, config_file: Path, kills: Any) -> Paywall:
    def make_journal(context: JournalContext) -> Journal:
        journal: Any = journal_from_url(database, KEYS, context)
        dying: Any = DyingJournal(journal, kills)
        return dying  # type: ignore[no-any-return]

    return Paywall(
        environ={"FAREGATE_BASE_URL": "service:", "FAREGATE_SERVICE_CONFIG": str(config_file)},
        public_url="https://seller.example",
        journal=make_journal,
        max_work_seconds=5.0,
    )


def _build_app(paywall: Paywall, folder: Path, kills: _Kills) -> Starlette:
    async def work(request: Request) -> Response:
        proof = request.headers["payment-signature"]
        append_line(folder / RUNS, transaction=request.state.payment.transaction_id, proof=proof)
        kills.reach("work:begin")
        await asyncio.sleep(WORK_SECONDS)
        kills.reach("work:end")
        if request.query_params.get("work") == "fails":
            return JSONResponse({"sorry": True}, 500)
        if "units" in request.query_params:
            request.state.payment.report(units=request.query_params["units"])
        return JSONResponse({"result": CONTENT})

    routes = [Route(f"/{key}", paid(key)(work)) for key in ("long", "short", "usage")]
    return Starlette(routes=routes, middleware=[Middleware(PaywallMiddleware, paywall)])
