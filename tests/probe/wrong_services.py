"""Services that decide one thing differently: the emulator behind one wrong_answer."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from faregate.core.models import Headers, Response, WireRequest
from faregate.emulator import TEST_KEY, Emulator
from faregate.errors import NoAnswer
from tests.support.replies import Change, json_reply

Truth = Callable[..., Response]
"""Really asks the service: what was asked, or the request that is given."""


@dataclass
class Call:
    """One call as a wrong_answer looks at it. `memory` lasts as long as the service."""

    request: WireRequest
    memory: set[str]
    operation: str = ""
    identifier: str = ""
    query: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        path, _, self.query = self.request.path.removeprefix("/merchant/v1/").partition("?")
        parts = path.split("/")
        self.operation = {1: parts[0], 2: "transaction", 3: f"complete {parts[0]}"}[len(parts)]
        self.identifier = parts[1] if len(parts) > 1 else ""
        try:
            self.body = json.loads(self.request.body or b"{}")
        except ValueError:
            self.body = {"not": "json"}

    def header(self, name: str) -> str | None:
        return Response(0, self.request.headers).first(name)

    @property
    def proof(self) -> str | None:
        return self.header("payment-signature")

    @property
    def key(self) -> str | None:
        return self.header("authorization")

    def again(self) -> bool:
        """Whether a call with this operation, id and proof was made before."""
        known = f"{self.operation} {self.identifier} {self.proof}"
        before = known in self.memory
        self.memory.add(known)
        return before


WrongAnswer = Callable[[Call, Truth], Response]


def error(status: int, code: str = "invalid_request", *headers: tuple[str, str]) -> Response:
    return json_reply(status, {"code": code, "message": "as this service decides"}, *headers)


def respond_with(**fields: object) -> Response:
    return json_reply(200, fields)


EMPTY_LIST = {"items": [], "count": 0, "as_of": "2026-01-01T00:00:00Z", "next": None}


@dataclass
class WrongService:
    """A transport to a service in this process that wrong_answers where its wrong_answer says so."""

    wrong_answer: WrongAnswer
    emulator: Emulator = field(default_factory=lambda: Emulator(expose_execution_id=True))
    memory: set[str] = field(default_factory=set)

    def respond(self, request: WireRequest) -> Response:
        return self.wrong_answer(
            Call(request, self.memory), lambda other=request: self.emulator.respond(other)
        )

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        return self.respond(WireRequest(method, path, tuple(headers), body))

    def close(self) -> None:
        """Nothing to close."""


def honest(call: Call, truth: Truth) -> Response:
    return truth()


def silent_on_complete(call: Call, truth: Truth) -> Response:
    if call.operation == "complete transactions":
        raise NoAnswer("nobody answers")
    return truth()


def careless(call: Call, truth: Truth) -> Response:
    """It takes a completion from anybody."""
    if call.key is not None or call.operation != "complete transactions":
        return truth()
    authorization = ("authorization", f"Bearer {TEST_KEY}")
    return truth(replace(call.request, headers=(*call.request.headers, authorization)))


def silent_after_complete(call: Call, truth: Truth) -> Response:
    """It acts, and its answer is lost."""
    real = truth()
    if call.operation == "complete transactions":
        raise NoAnswer("the answer was lost")
    return real


def replace_matching(when: Callable[[Call], bool], reply: Response) -> WrongAnswer:
    """This reply to such calls, without asking the service."""
    return lambda call, truth: reply if when(call) else truth()


def replace_status(status: int, when: Callable[[Call], bool], reply: Response) -> WrongAnswer:
    """This reply where the service's own has this status."""

    def wrong_answer(call: Call, truth: Truth) -> Response:
        real = truth()
        return reply if real.status == status and when(call) else real

    return wrong_answer


def change_matching(status: int, when: Callable[[Call], bool], turn: Change, *words: str) -> WrongAnswer:
    """The service's own reply, change_matching where it has this status and these words in its body."""

    def wrong_answer(call: Call, truth: Truth) -> Response:
        real = truth()
        such = real.status == status and all(word.encode() in real.body for word in words)
        return turn(real) if such and when(call) else real

    return wrong_answer
