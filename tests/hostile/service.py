"""The service of one case: a real emulator behind somebody who misbehaves, call by call."""

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from faregate.core.models import Response, WireRequest
from faregate.emulator import Emulator
from faregate.service.records import TransactionRecord
from tests.hostile.forgery import forged
from tests.hostile.raw_server import Connection, ConnectionGone


@dataclass(frozen=True)
class ReceivedCall:
    """One call: it may really be answered (`real`), or answered by somebody who did not act (`forged`)."""

    operation: str
    request: WireRequest
    emulator: Emulator
    stranger: str
    """The address of somebody to whom nothing of this may be sent."""

    def real(self) -> Response:
        return self.emulator.respond(self.request)

    def forged(self) -> Response:
        return forged(self.operation, self.request, self.emulator)


Speak = Callable[[Connection, ReceivedCall], Awaitable[None]]


@dataclass(frozen=True)
class Fault:
    """One way to misbehave. `mute` is one that ends only with the caller's deadline."""

    name: str
    speak: Speak
    mute: bool = False


@dataclass(frozen=True)
class Plan:
    """Which calls of an operation go wrong: those of these numbers, counted from 0; None is all."""

    fault: Fault
    numbers: range | None = None

    def hits(self, number: int) -> bool:
        return self.numbers is None or number in self.numbers


@dataclass
class Service:
    """`plans` by operation: the first that hits is followed, until the service is `healed`."""

    emulator: Emulator
    plans: dict[str, list[Plan]] = field(default_factory=dict)
    healed: bool = False
    asked: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    """How often each fault was met, by its name."""
    mistakes: list[str] = field(default_factory=list)
    outcomes: set[tuple[str, str]] = field(default_factory=set)
    """Which outcomes were told of which transaction."""

    async def answer(self, connection: Connection, request: WireRequest, origin: str) -> None:
        operation = operation_of(request)
        number = self.asked[operation]
        self.asked[operation] += 1
        if operation in ("complete", "fail"):
            self.outcomes.add((request.path.split("/")[-2], operation))
        fault = None if self.healed else self._fault(operation, number)
        ask = ReceivedCall(operation, request, self.emulator, origin)
        if fault is None:
            await connection.answer(ask.real())
        else:
            self.met[fault.name] += 1
            await fault.speak(connection, ask)

    def _fault(self, operation: str, number: int) -> Fault | None:
        return next((plan.fault for plan in self.plans.get(operation, []) if plan.hits(number)), None)

    @property
    def transactions(self) -> dict[str, TransactionRecord]:
        """The truth: every transaction there is."""
        return self.emulator.look(lambda service, _: service.environments["test"].transactions)


def operation_of(request: WireRequest) -> str:
    """`rules`, `ask` (access without a proof), `access`, `complete`, `fail`, `look` or `execution`."""
    path = request.path.partition("?")[0]
    if path.endswith("/contracts"):
        return "rules"
    if path.endswith("/access"):
        proven = any(name.lower() == "payment-signature" for name, _ in request.headers)
        return "access" if proven else "ask"
    if "/resource-executions/" in path:
        return "execution"
    if path.endswith("/complete"):
        return "fail" if b'"failed"' in (request.body or b"") else "complete"
    return "look"


class ServiceRouter:
    """All services behind one port, each below a path of its own; whoever else is asked is a stranger."""

    def __init__(self) -> None:
        self.services: dict[str, Service] = {}
        self.port = 0
        self.strayed: list[str] = []
        self._closed: set[str] = set()
        self._numbers = itertools.count(1)

    def opened(self, service: Service) -> str:
        """A name for a service from now on."""
        name = f"c{next(self._numbers)}"
        self.services[name] = service
        return name

    def closed(self, name: str) -> None:
        """Who gave up on a call may be heard a little later."""
        del self.services[name]
        self._closed.add(name)

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    async def __call__(self, connection: Connection, request: WireRequest) -> None:
        _, name, rest = request.path.split("/", 2)
        service = self.services.get(name)
        if service is None:
            if name not in self._closed:
                self.strayed.append(f"{request.method} {request.path}")
            await connection.hang_up()
            return
        plain = WireRequest(request.method, f"/{rest}", request.headers, request.body)
        try:
            await service.answer(connection, plain, self.address("stranger"))
        except (ConnectionGone, OSError):
            raise
        except Exception as error:
            service.mistakes.append(f"the tests' own: {error!r}")
            raise
