"""Every client there is: blocking, and awaiting on asyncio and trio."""

from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio
import anyio.from_thread
import pytest
from packaging.version import Version

from faregate.core.models import Response, WireRequest
from faregate.errors import FaregateError
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.requests import Call

KEY = "svc_test_0123456789abcdefSECRET"

PRELUDE = f"""
import asyncio, gc, os, sys, threading
import anyio
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.requests import Call
from faregate.core.models import WireRequest
url = sys.argv[1]
def get(path="/x"):
    return Call(WireRequest("GET", path), lambda reply: reply.body.decode())
blocking = MerchantClient("{KEY}", url)
awaiting = AsyncMerchantClient("{KEY}", url)
"""
"""How a script begins that shows what only a process can. Its argument: the address."""

cancels_connects = pytest.mark.filterwarnings(
    *(["ignore:unclosed:ResourceWarning"] if Version(version("anyio")) < Version("4.16") else [])
)
"""Cancelled while it connects, anyio before 4.16 leaves its socket to the garbage collector."""


def get(path: str = "/merchant/v1/access") -> Call[Response]:
    """A call whose reply is not read as anything."""
    return Call(WireRequest("GET", path), lambda reply: reply)


class Speaker:
    """One way to speak to the service. `backend` None is for one that blocks."""

    def __init__(self, backend: str | None) -> None:
        self.backend = backend

    def __repr__(self) -> str:
        return self.backend or "blocking"

    def speak(self, url: str, *calls: Call[Any], **settings: Any) -> list[Any]:
        """What one client gives for these calls, in order: an answer, or the error it raised."""
        settings = {"timeout": 5.0, **settings}
        if self.backend is None:
            with MerchantClient(KEY, url, **settings) as client:
                return [_outcome(client.send, call) for call in calls]
        return anyio.run(_aspeak, url, calls, settings, backend=self.backend)


class Crowd:
    """Calls of one client, as many at once as are submitted: in threads, or as tasks of one event loop."""

    def __init__(
        self,
        client: MerchantClient | AsyncMerchantClient,
        submit: Callable[[Call[Any]], "Future[Any]"],
        close: Callable[[], object],
    ) -> None:
        self._client = client
        self._submit = submit
        self.close = close
        """Close the client."""

    def set_timeout(self, seconds: float) -> None:
        """For the calls that are submitted from now on."""
        self._client._timeout = seconds

    def __call__(self, call: Call[Any]) -> "Future[Any]":
        return self._submit(call)


@contextmanager
def crowd(speaker: Speaker, url: str, transport: Any = None) -> Generator[Crowd]:
    if speaker.backend is None:
        client = MerchantClient(KEY, url, transport=transport, timeout=50.0)
        with client, ThreadPoolExecutor(400) as threads:
            yield Crowd(client, lambda call: threads.submit(client.send, call), client.close)
        return
    with anyio.from_thread.start_blocking_portal(speaker.backend) as portal:
        awaiting = AsyncMerchantClient(KEY, url, transport=transport, timeout=50.0)
        close = partial(portal.call, awaiting.aclose)
        yield Crowd(awaiting, lambda call: portal.start_task_soon(awaiting.send, call), close)
        close()


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


SPEAKERS = [Speaker(None), Speaker("asyncio"), Speaker("trio")]


@pytest.fixture(params=SPEAKERS, ids=repr)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    found: Speaker = request.param
    return found
