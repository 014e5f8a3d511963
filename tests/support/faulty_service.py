"""The emulator as an HTTP server that misbehaves as it is told, call by call."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Generic, TypeVar

from faregate.core.models import Response, WireRequest
from faregate.emulator import TEST_KEY, Emulator
from tests.support.raw_server import Answering, Connection, serving_by_hand
from tests.support.replies import JSON, Change, json_reply

AUTHORIZATION = (("authorization", f"Bearer {TEST_KEY}"),)


@dataclass(frozen=True)
class Call:
    """One call of the service. The service has acted when `act` was called, which gives its reply."""

    operation: str
    request: WireRequest
    act: Callable[[], Response]


Fault = Callable[[Connection, Call], Awaitable[None]]


async def well(connection: Connection, call: Call) -> None:
    """No fault."""
    await connection.answer(call.act())


def answers(status: int, body: Any = None, *headers: tuple[str, str]) -> Fault:
    """This, without asking the service."""

    async def fault(connection: Connection, _call: Call) -> None:
        await connection.answer(json_reply(status, body, *headers))

    return fault


def changes(change: Change) -> Fault:
    """What the service says, changed on its way."""

    async def fault(connection: Connection, call: Call) -> None:
        await connection.answer(change(call.act()))

    return fault


async def lost_before(connection: Connection, _call: Call) -> None:
    """The call is cut off before the service acts."""
    await connection.hang_up()


async def lost_after(connection: Connection, call: Call) -> None:
    """The service acts, and its answer is cut off."""
    call.act()
    await connection.hang_up()


def operation_of(request: WireRequest) -> str:
    """`contracts`, `access`, `complete`, `transaction`, `execution`, or another last part of the path."""
    path = request.path.partition("?")[0]
    if "/resource-executions/" in path:
        return "execution"
    last = path.rsplit("/", 1)[1]
    return "transaction" if "/transactions/" in path and last != "complete" else last


@dataclass
class FaultyService:
    """`faults` of an operation are used up in order, one per call, until the service is `healed`."""

    emulator: Emulator = field(default_factory=Emulator)
    faults: dict[str, Iterator[Fault]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    met: list[Fault] = field(default_factory=list)
    delay: float = 0.0
    healed: bool = False

    def fails(self, operation: str, *faults: Fault) -> None:
        """The next calls of this operation (`operation_of`) go wrong in this way."""
        self.faults[operation] = chain(self.faults.get(operation, ()), faults)

    def count(self, operation: str) -> int:
        return self.asked.count(operation)

    async def answer(self, connection: Connection, request: WireRequest) -> None:
        operation = self.operation_of(request)
        self.asked.append(operation)
        await asyncio.sleep(self.delay)
        fault = well if self.healed else next(self.faults.get(operation, iter(())), well)
        if fault is not well:
            self.met.append(fault)
        await fault(connection, Call(operation, request, lambda: self.act(operation, request)))

    def operation_of(self, request: WireRequest) -> str:
        return operation_of(request)

    def act(self, operation: str, request: WireRequest) -> Response:
        return self.emulator.respond(request)

    def list_transactions(self, newest: int = 100) -> list[dict[str, Any]]:
        """So many as the service lists them, whatever goes wrong with calls."""
        asked = WireRequest("GET", f"/merchant/v1/transactions?page_size={newest}", AUTHORIZATION)
        items: list[dict[str, Any]] = json.loads(self.emulator.respond(asked).body)["items"]
        return items

    @contextmanager
    def serving(self) -> Generator[str]:
        """Serve while the block runs; gives the URL."""
        with serving_by_hand(self.answer) as port:
            yield f"http://127.0.0.1:{port}"


S = TypeVar("S", bound=FaultyService)


@dataclass
class ServiceRouter(Generic[S]):
    """Services behind one port, each below `/NAME`. Other requests go to `otherwise`."""

    otherwise: Answering
    services: dict[str, S] = field(default_factory=dict)

    async def __call__(self, connection: Connection, request: WireRequest) -> None:
        _, name, path = request.path.split("/", 2)
        service = self.services.get(name)
        if service is None:
            await self.otherwise(connection, request)
        else:
            await service.answer(connection, replace(request, path=f"/{path}"))


def instructions(emulator: Emulator, path: str, sells: str = "daily_report") -> str:
    """What a payer is told by a seller of this."""
    asked = {
        "revision_id": emulator.revision_id(sells),
        "resource": {"url": f"https://seller.example{path}", "mime_type": "application/json"},
        "settlement_asset": "USDC",
    }
    request = WireRequest("POST", "/merchant/v1/access", (*AUTHORIZATION, *JSON), json.dumps(asked).encode())
    return emulator.respond(request).first("payment-required") or ""
