"""The service in a process of its own, which outlives every seller: an emulator per trial, and its log.

`/NAME/merchant/...` is the service as the trial NAME sees it. `/control/NAME` is for the campaign: PUT
begins a trial and answers what a payer must sign, GET gives the records; POST `/death` names a process that
is killed when the service has acted, POST `/heal` ends all faults.
"""

import contextlib
import json
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import Any

from faregate.core.models import Response, WireRequest
from faregate.emulator import SettlementRule
from tests.crash.points.faults import FAULTS
from tests.crash.points.seller import PATH, SELLS
from tests.support.faulty_service import FaultyService, ServiceRouter, instructions
from tests.support.raw_server import Connection, serve_for_ever
from tests.support.replies import json_reply


@dataclass
class TrialService(FaultyService):
    """Every call as it was acted on is in `calls`; `open` are those that were not answered yet."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    death: dict[str, Any] = field(default_factory=dict)
    open: int = 0

    async def answer(self, connection: Connection, request: WireRequest) -> None:
        self.open += 1
        try:
            await super().answer(connection, request)
        finally:
            self.open -= 1

    def act(self, operation: str, request: WireRequest) -> Response:
        reply = super().act(operation, request)
        self.calls.append(
            {
                "operation": operation,
                "transaction": _transaction_of(request, reply),
                "body": (request.body or b"").decode(),
                "status": reply.status,
            }
        )
        self._kill(operation)
        return reply

    def _kill(self, operation: str) -> None:
        if self.death.get("operation") != operation:
            return
        self.death["visit"] -= 1
        if self.death["visit"] == 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.death["pid"], signal.SIGKILL)

    def statuses(self) -> dict[str, str]:
        return {item["id"]: item["status"] for item in self.list_transactions()}

    def records(self) -> dict[str, Any]:
        return {"transactions": self.statuses(), "calls": self.calls, "open": self.open}


class TrialServices:
    """All trials behind one port."""

    def __init__(self) -> None:
        self.answer = ServiceRouter[TrialService](self._control)

    async def _control(self, connection: Connection, request: WireRequest) -> None:
        whose, _, rest = request.path.removeprefix("/").partition("/")
        if whose != "control":
            await connection.reset()
        name, _, what = rest.partition("/")
        said = json.loads(request.body or b"null")
        await connection.answer(json_reply(200, self._do(request.method, name, what, said)))

    def _do(self, method: str, name: str, what: str, said: Any) -> Any:
        trials = self.answer.services
        match method, what:
            case "PUT", "":
                trial = trials[name] = TrialService()
                for operation, faults in said["faults"].items():
                    trial.fails(operation, *(FAULTS[fault] for fault in faults))
                if said["settlement"]:
                    trial.emulator.settle_after(SELLS, SettlementRule(**said["settlement"]))
                return instructions(trial.emulator, PATH, SELLS)
            case "POST", "death":
                trials[name].death = said
            case "POST", "heal":
                trials[name].healed = True
            case "GET", "":
                return trials[name].records()
            case "GET", "statuses":
                return trials[name].statuses()
            case "DELETE", "":
                trials.pop(name, None)
        return None


def run(listener: socket.socket) -> None:
    """Until the process is ended."""
    serve_for_ever(listener, TrialServices().answer)


def _transaction_of(request: WireRequest, reply: Response) -> str | None:
    """Named in the path, or in what access answered."""
    named = next((part for part in request.path.split("/") if part.startswith("txn_")), None)
    if named is not None:
        return named.partition("?")[0]
    try:
        found = json.loads(reply.body).get("transaction_id")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None
