"""Every client there is: two colours, two transports, and trio."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import anyio
import pytest

from faregate.errors import FaregateError
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.wire import Call
from faregate.model import Response, WireRequest

KEY = "svc_test_0123456789abcdefSECRET"
Name = Literal["httpx", "pyreqwest"]


def get(path: str = "/merchant/v1/access") -> Call[Response]:
    """A call whose reply is not read as anything."""
    return Call(WireRequest("GET", path), lambda reply: reply)


class Speaker:
    """One way to speak to the service. `backend` None is the blocking colour."""

    def __init__(self, transport: Name, backend: str | None) -> None:
        self.transport: Name = transport
        self.backend = backend

    def __repr__(self) -> str:
        return f"{self.transport}-{self.backend or 'blocking'}"

    def speak(self, url: str, *calls: Call[Any], **settings: Any) -> list[Any]:
        """What one client gives for these calls, in order: an answer, or the error it raised."""
        settings = {"transport": self.transport, "timeout": 5.0, **settings}
        if self.backend is None:
            with MerchantClient(KEY, url, **settings) as client:
                return [_outcome(client.send, call) for call in calls]
        return anyio.run(_aspeak, url, calls, settings, backend=self.backend)


async def _aspeak(url: str, calls: tuple[Call[Any], ...], settings: dict[str, Any]) -> list[Any]:
    async with AsyncMerchantClient(KEY, url, **settings) as client:
        return [await _aoutcome(client.send, call) for call in calls]


def _outcome(send: Callable[[Call[Any]], Any], call: Call[Any]) -> Any:
    try:
        return send(call)
    except FaregateError as error:
        return error


async def _aoutcome(send: Callable[[Call[Any]], Awaitable[Any]], call: Call[Any]) -> Any:
    try:
        return await send(call)
    except FaregateError as error:
        return error


SPEAKERS = [
    Speaker("httpx", None),
    Speaker("pyreqwest", None),
    Speaker("httpx", "asyncio"),
    Speaker("pyreqwest", "asyncio"),
    Speaker("httpx", "trio"),
]


@pytest.fixture(params=SPEAKERS, ids=repr)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    found: Speaker = request.param
    return found


@pytest.fixture(params=["httpx", "pyreqwest"])
def transport(request: pytest.FixtureRequest) -> Name:
    name: Name = request.param
    return name
