"""The service in a process of its own, which outlives every shop: an emulator per trial, and its log.

`/t/NAME/merchant/...` is the service as the trial NAME sees it. Beside that, for the campaign:
PUT /t/NAME begins a trial and answers what a payer must sign; POST /t/NAME/death names a process that
is killed when the service has acted; POST /t/NAME/heal ends all faults; GET /t/NAME gives the records.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import Any

from faregate.core.models import Response, WireRequest
from faregate.emulator import TEST_KEY, Emulator, SettlementRule
from tests.crash.points.faults import FAULTS
from tests.crash.points.http_server import Cut, Reply, serve
from tests.crash.points.kill_wrappers import operation_of
from tests.crash.points.seller import PATH, SELLER, SELLS

AUTHORIZATION = (("Authorization", f"Bearer {TEST_KEY}"), ("Content-Type", "application/json"))


@dataclass
class Trial:
    """One trial's service: faults by operation, used up in order, and every call as it was acted on."""

    faults: dict[str, list[str]]
    emulator: Emulator = field(default_factory=Emulator)
    calls: list[dict[str, Any]] = field(default_factory=list)
    death: dict[str, Any] = field(default_factory=dict)
    open: int = 0

    async def answer(self, request: WireRequest) -> Reply:
        operation = operation_of(request.path)
        planned = self.faults.get(operation)

        def act() -> Response:
            return self._act(operation, request)

        self.open += 1
        try:
            return await FAULTS[planned.pop(0)](act) if planned else act()
        finally:
            self.open -= 1

    def _act(self, operation: str, request: WireRequest) -> Response:
        reply = self.emulator.respond(request)
        proof = next((value for name, value in request.headers if name.lower() == "payment-signature"), "")
        self.calls.append(
            {
                "operation": operation,
                "transaction": _transaction_of(request, reply),
                "proof": hashlib.sha256(proof.encode()).hexdigest()[:16],
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

    def ask(self, method: str, path: str, body: Any = None) -> Response:
        """A call of the campaign's own: no fault, no log."""
        content = None if body is None else json.dumps(body).encode()
        return self.emulator.respond(WireRequest(method, f"/merchant/v1/{path}", AUTHORIZATION, content))

    def instructions(self) -> str:
        """What a payer is told by a shop that sells this."""
        resource = {"url": SELLER + PATH, "mime_type": "application/json"}
        revision = self.emulator.revision_id(SELLS)
        asked = {"revision_id": revision, "resource": resource, "settlement_asset": "USDC"}
        return self.ask("POST", "access", asked).first("payment-required") or ""

    def statuses(self) -> dict[str, str]:
        found = json.loads(self.ask("GET", "transactions?page_size=100").body)["items"]
        return {item["id"]: item["status"] for item in found}

    def records(self) -> dict[str, Any]:
        return {"transactions": self.statuses(), "calls": self.calls, "open": self.open}


class Service:
    """All trials behind one port."""

    def __init__(self) -> None:
        self._trials: dict[str, Trial] = {}

    async def answer(self, request: WireRequest) -> Reply:
        _, _, name, *rest = request.path.split("/", 3)
        if rest and rest[0].startswith("merchant/"):
            trial = self._trials.get(name)
            if trial is None:
                return Cut()
            own = WireRequest(request.method, f"/{rest[0]}", request.headers, request.body)
            return await trial.answer(own)
        said = json.loads(request.body or b"null")
        return _json(self._control(request.method, name, rest[0] if rest else "", said))

    def _control(self, method: str, name: str, what: str, said: Any) -> Any:
        match method, what:
            case "PUT", "":
                trial = self._trials[name] = Trial(said["faults"])
                if said["settlement"]:
                    trial.emulator.settle_after(SELLS, SettlementRule(**said["settlement"]))
                return trial.instructions()
            case "POST", "death":
                self._trials[name].death = said
            case "POST", "heal":
                self._trials[name].faults.clear()
            case "GET", "":
                return self._trials[name].records()
            case "GET", "statuses":
                return self._trials[name].statuses()
            case "DELETE", "":
                self._trials.pop(name, None)
        return None


def run(listener: socket.socket) -> None:
    """Until the process is ended."""
    asyncio.run(serve(listener, Service().answer))


def _json(answer: Any) -> Response:
    return Response(200, (("Content-Type", "application/json"),), json.dumps(answer).encode())


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
