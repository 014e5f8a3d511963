"""The service as an ASGI app: the Merchant API in a bounded number of threads, and pages for operators.

The pages for operators ask for no key, and `/console` is for the seller's own people: a reverse
proxy publishes `/merchant/` only.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from faregate.core.models import Response, WireRequest, header_values
from faregate.merchant.problems import MALFORMED, RATE_LIMITED, UNAVAILABLE
from faregate.pages.payment import prefers_html
from faregate.rules.asgi import (
    Receive,
    Scope,
    Send,
    decode_headers,
    get_path,
    read_body,
    send_whole,
)
from faregate.rules.http import RETRY_SOON, HttpError
from faregate.rules.routes import find_route
from faregate.service.callers import LoggedResponse
from faregate.service.console.app import is_console
from faregate.service.console.layout import ROOT as CONSOLE
from faregate.service.log_format import FIELDS
from faregate.service.operator_pages import OperatorPages, OperatorParts, run_lifespan, without_body
from faregate.service.rate_limits import RateLimits, Ticket

Respond = Callable[[WireRequest], LoggedResponse]
BODY_SECONDS: Final = 30.0
"""A caller sends its body within this time."""
WAITING_PER_THREAD: Final = 20
"""Requests that may wait for each thread. More are answered 503 at once: they would time out anyway."""
_CONSOLE: Final = "console"
_CONSOLE_THREADS: Final = 2
"""Few, and its own: people who look at sums must not keep payments waiting."""
_log = logging.getLogger("faregate.service")


@dataclass(frozen=True, slots=True)
class AppParts:
    """What the app is made of."""

    respond: Respond
    show_console: Callable[[WireRequest], Response]
    rate_limits: RateLimits
    operator: OperatorParts
    threads: int


class _Threads:
    """Threads that answer requests, and how many requests they have."""

    def __init__(self, threads: int, name: str, respond: Respond) -> None:
        self._pool = ThreadPoolExecutor(threads, name)
        self._most = threads * (1 + WAITING_PER_THREAD)
        # Without a lock: only the event loop counts.
        self._under_way = 0
        self._respond = respond

    @property
    def is_overloaded(self) -> bool:
        return self._under_way >= self._most

    async def respond(self, request: WireRequest) -> LoggedResponse:
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._respond, request)
        finally:
            self._under_way -= 1

    def shutdown(self) -> None:
        self._pool.shutdown(wait=False)


class ServiceApp:
    """The ASGI app. Its requests run in threads of its own: completions, the console and the rest apart."""

    def __init__(self, parts: AppParts) -> None:
        self._parts = parts
        self._api = _Threads(parts.threads, "faregate-request", parts.respond)
        # Access waits for facilitators and nodes. However slow they are, what was sold must be completed.
        self._completions = _Threads(parts.threads, "faregate-completion", parts.respond)
        self._console = _Threads(
            _CONSOLE_THREADS, "faregate-console", lambda request: LoggedResponse(parts.show_console(request))
        )
        self._pages = OperatorPages(parts.operator)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await run_lifespan(self._parts.operator, receive, send)
            self._shutdown()
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = await self._pages.answer(scope["path"])
        if page is not None:
            await send_whole(without_body(page) if scope["method"] == "HEAD" else page, send)
            return
        if scope["path"] == "/" and _is_browser(scope):
            await send_whole(Response(303, (("Location", CONSOLE), ("Vary", "Accept"))), send)
            return
        began = time.perf_counter()
        operation = _name_operation(scope["method"], scope["path"])
        answer = await self._answer(operation, scope, receive)
        if answer is not None:
            self._report(operation, answer, time.perf_counter() - began)
            await send_whole(answer.response, send)

    async def _answer(self, operation: str, scope: Scope, receive: Receive) -> LoggedResponse | None:
        """Return the answer to this request; None if the client has disconnected."""
        headers = decode_headers(scope["headers"])
        for_console = operation == _CONSOLE
        threads = self._console if for_console else self._choose_threads(operation)
        # A login has no key yet, and may be a guess.
        ticket = self._parts.rate_limits.take(() if for_console else headers, _get_address(scope))
        if ticket.wait:
            self._parts.operator.metrics.count_limited(ticket.key_id)
            return _build_429(ticket)
        if threads.is_overloaded:
            return LoggedResponse(
                HttpError(UNAVAILABLE, "the service is overloaded", (RETRY_SOON,)).response()
            )
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await read_body(receive)
        except TimeoutError:
            late = f"the body did not arrive within {BODY_SECONDS:g} seconds"
            return LoggedResponse(HttpError(MALFORMED, late).response())
        if body is None:
            return None
        request = WireRequest(scope["method"], get_path(scope), headers, body)
        answer = await threads.respond(request)
        if for_console:
            return LoggedResponse(without_body(answer.response)) if request.method == "HEAD" else answer
        self._parts.rate_limits.learn(ticket, answer.response.status, answer.fields.get("key"))
        return answer

    def _choose_threads(self, operation: str) -> _Threads:
        return self._completions if operation in ("complete", "execution") else self._api

    def _report(self, operation: str, answer: LoggedResponse, seconds: float) -> None:
        status = answer.response.status
        self._parts.operator.metrics.count_request(operation, status, seconds)
        fields = {"operation": operation, "status": status, "seconds": round(seconds, 4), **answer.fields}
        _log.info("request", extra={FIELDS: fields})

    def _shutdown(self) -> None:
        for threads in (self._api, self._completions, self._console, self._pages):
            threads.shutdown()


def _name_operation(method: str, path: str) -> str:
    """Name the operation for metrics and logs. A path is never named: it may hold anything."""
    if is_console(path):
        return _CONSOLE
    try:
        return find_route(method, path)[0].operation
    except HttpError:
        return "none"


def _is_browser(scope: Scope) -> bool:
    accept = ",".join(header_values(decode_headers(scope["headers"]), "accept"))
    return scope["method"] in ("GET", "HEAD") and prefers_html(accept)


def _get_address(scope: Scope) -> str:
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else ""


def _build_429(ticket: Ticket) -> LoggedResponse:
    message = (
        "too many requests with this key"
        if ticket.address is None
        else "too many requests without a valid key from this address"
    )
    response = HttpError(RATE_LIMITED, message, (("Retry-After", str(ticket.wait)),)).response()
    return LoggedResponse(response, {} if ticket.key_id is None else {"key": ticket.key_id})
