"""The service of one case: a real emulator behind somebody who misbehaves, call by call."""

import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from faregate.core.models import Response, WireRequest
from faregate.rules.records import TransactionRecord
from tests.support.faulty_service import Call, FaultyService, ServiceRouter
from tests.support.raw_server import Connection, ConnectionGone

Speak = Callable[[Connection, Call], Awaitable[None]]


@dataclass(frozen=True)
class NamedFault:
    """One way to misbehave. `mute` is one that ends only with the caller's deadline."""

    name: str
    speak: Speak
    mute: bool = False

    async def __call__(self, connection: Connection, call: Call) -> None:
        await self.speak(connection, call)


@dataclass
class CaseService(FaultyService):
    """Its operations are also `ask` (access without a proof) and `fail` (complete, as failed)."""

    mistakes: list[str] = field(default_factory=list)
    outcomes: set[tuple[str, str]] = field(default_factory=set)
    """Which outcomes were told of which transaction."""
    reported: set[tuple[str, str]] = field(default_factory=set)
    """Which values were reported of which transaction, as JSON."""

    def operation_of(self, request: WireRequest) -> str:
        operation = super().operation_of(request)
        if operation == "access" and Response(0, request.headers).first("payment-signature") is None:
            return "ask"
        if operation == "complete":
            body, transaction_id = json.loads(request.body or b"{}"), request.path.split("/")[-2]
            operation = "fail" if body.get("outcome") == "failed" else operation
            self.outcomes.add((transaction_id, operation))
            self.reported.add((transaction_id, json.dumps(body.get("values"), sort_keys=True)))
        return operation

    async def answer(self, connection: Connection, request: WireRequest) -> None:
        try:
            await super().answer(connection, request)
        except (ConnectionGone, OSError):
            raise
        except Exception as error:
            self.mistakes.append(f"the tests' own: {error!r}")
            raise

    @property
    def transactions(self) -> dict[str, TransactionRecord]:
        """The truth: every transaction there is."""
        return self.emulator.read_state(lambda service, _: service.environments["test"].transactions)


class CaseServices:
    """The services of all cases. `strayed` are calls that nobody should have made."""

    def __init__(self) -> None:
        self.answer = ServiceRouter[CaseService](self._stray)
        self.port = 0
        self.strayed: list[str] = []
        self._closed: set[str] = set()
        self._numbers = itertools.count(1)

    def open(self, service: CaseService) -> str:
        """A name for a service from now on."""
        name = f"c{next(self._numbers)}"
        self.answer.services[name] = service
        return name

    def close(self, name: str) -> None:
        del self.answer.services[name]
        self._closed.add(name)

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    async def _stray(self, connection: Connection, request: WireRequest) -> None:
        """Who gave up on a call may be heard a little after the case is closed."""
        if request.path.split("/")[1] not in self._closed:
            self.strayed.append(f"{request.method} {request.path}")
        await connection.hang_up()
