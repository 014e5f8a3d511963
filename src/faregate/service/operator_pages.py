"""The pages for operators, of `serve` and of `work`: `/healthz`, `/readyz` and `/metrics`."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from faregate.core.models import Response
from faregate.rules.asgi import Receive, Scope, Send, send_whole
from faregate.service.metrics import CONTENT_TYPE, ServiceMetrics


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether requests can be answered; if not, `reason` says why, without secrets."""

    is_ready: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OperatorParts:
    """What the pages show, and what `run_lifespan` calls.

    `find_late` names the loops of the process that stand still, and asks no database. `begin` and `end` run
    when the server starts and after its last request.
    """

    metrics: ServiceMetrics
    find_late: Callable[[], str]
    check_readiness: Callable[[], Readiness]
    begin: Callable[[], None]
    end: Callable[[], None]


class OperatorPages:
    """An ASGI app of the pages alone; any other path is 404."""

    def __init__(self, parts: OperatorParts) -> None:
        self._parts = parts
        # Readable while every request waits for a slow database.
        self._pool = ThreadPoolExecutor(2, "faregate-operator")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await run_lifespan(self._parts, receive, send)
            self.shutdown()
        elif scope["type"] == "http":
            page = await self.answer(scope["path"]) or _build_text(404, "there is no such page\n")
            await send_whole(without_body(page) if scope["method"] == "HEAD" else page, send)

    async def answer(self, path: str) -> Response | None:
        """Return the page at this path; None if there is none."""
        if path == "/healthz":
            return self._show_health()  # in no thread: those may all wait for the database
        show = {"/readyz": self._show_readiness, "/metrics": self._show_metrics}.get(path)
        return None if show is None else await asyncio.get_running_loop().run_in_executor(self._pool, show)

    def shutdown(self) -> None:
        self._pool.shutdown(wait=False)

    def _show_health(self) -> Response:
        late = self._parts.find_late()
        return _build_text(503, f"{late}\n") if late else _build_text(200, "the process lives\n")

    def _show_readiness(self) -> Response:
        readiness = self._parts.check_readiness()
        return (
            _build_text(200, "ready\n") if readiness.is_ready else _build_text(503, f"{readiness.reason}\n")
        )

    def _show_metrics(self) -> Response:
        return Response(200, (("Content-Type", CONTENT_TYPE),), self._parts.metrics.render())


async def run_lifespan(parts: OperatorParts, receive: Receive, send: Send) -> None:
    """Answer the lifespan: `begin` at the start, `end` before the end."""
    await receive()
    await asyncio.to_thread(parts.begin)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await asyncio.to_thread(parts.end)
    await send({"type": "lifespan.shutdown.complete"})


def without_body(response: Response) -> Response:
    """Return what a HEAD request is answered."""
    return Response(response.status, response.headers)


def _build_text(status: int, text: str) -> Response:
    return Response(status, (("Content-Type", "text/plain; charset=utf-8"),), text.encode())
