"""How a process of the seller dies at a point: the journal, the client and the server are wrapped.

The product has no hooks for this. A wrapper passes every call on, and ends its process when the plan says
so; a killed process runs no `finally` and flushes nothing.
"""

import os
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from functools import partial
from inspect import isawaitable
from typing import Any, cast

from faregate.core.interfaces import Journal
from faregate.core.models import Headers, Response, WireRequest
from faregate.journals.urls import as_async
from tests.crash.points.kill_points import Death
from tests.support.faulty_service import operation_of

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class Kills:
    """Counts the visits to one point; at the `visit`-th this process is killed, or stopped."""

    def __init__(self, death: Death | None, visit: int) -> None:
        self._death = death
        self._left = visit
        self._lock = threading.Lock()
        self._inside: list[str] = []

    def reach(self, point: str) -> None:
        if self._death is None or point != self._death.at:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGSTOP if self._death.stops else signal.SIGKILL)

    @contextmanager
    def inside(self, call: str) -> Generator[None]:
        """A journal call is on its way."""
        self._inside.append(call)
        try:
            yield
        finally:
            self._inside.remove(call)

    def writing(self) -> None:
        """A store is in the middle of a write (`tests.crash.points.mid_write`)."""
        self.reach("batch:middle")
        for call in list(self._inside):
            self.reach(f"{call}:in")


class DyingJournal:
    """Every call of a blocking journal, with a point before it and one after."""

    def __init__(self, journal: Journal, kills: Kills) -> None:
        self._journal = journal
        self._kills = kills

    def as_async(self) -> Journal:
        return cast(Journal, DyingAsyncJournal(as_async(self._journal), self._kills))

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name, getattr(self._journal, name))

    def _call(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        self._kills.reach(f"{name}:before")
        with self._kills.inside(name):
            answer = call(*arguments)
        self._kills.reach(f"{name}:after")
        return answer


class DyingAsyncJournal:
    """The same for a journal in an event loop."""

    def __init__(self, journal: Journal, kills: Kills) -> None:
        self._journal = journal
        self._kills = kills

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name, getattr(self._journal, name))

    async def _call(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        self._kills.reach(f"{name}:before")
        with self._kills.inside(name):
            answer = call(*arguments)
            answer = await answer if isawaitable(answer) else answer
        self._kills.reach(f"{name}:after")
        return answer


class DyingTransport:
    """Every call of the service, with a point before it and one after, sync and async."""

    def __init__(self, transport: Any, kills: Kills) -> None:
        self._transport = transport
        self._kills = kills

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        operation = operation_of(WireRequest(method, url, headers, body))
        self._kills.reach(f"{operation}:before")
        reply: Response = self._transport.send(method, url, headers, body, seconds)
        self._kills.reach(f"{operation}:after")
        return reply

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        operation = operation_of(WireRequest(method, url, headers, body))
        self._kills.reach(f"{operation}:before")
        reply: Response = await self._transport.asend(method, url, headers, body, seconds)
        self._kills.reach(f"{operation}:after")
        return reply

    def close(self) -> None:
        self._transport.close()

    async def aclose(self) -> None:
        await self._transport.aclose()


def dying_server(app: Asgi, kills: Kills) -> Asgi:
    """The app, with points before and in a paid response, and after it."""

    async def dying(scope: Any, receive: Any, send: Any) -> None:
        paid = False

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal paid
            began = message["type"] == "http.response.start"
            paid = paid or (
                began and any(name.lower() == b"payment-response" for name, _ in message["headers"])
            )
            if paid and began:
                kills.reach("response:before")
            await send(message)
            if paid:
                kills.reach("response:head" if began else "response:body")

        await app(scope, receive, sending if scope["type"] == "http" else send)

    return dying
