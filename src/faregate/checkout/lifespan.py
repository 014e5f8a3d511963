"""Run a paywall's sweep while its application runs, and wait at shutdown for paid requests.

Rules
1. The sweep begins when the startup is complete. It is a task of the application's own lifespan.
2. Before the application hears of the shutdown, the sweep stops between two rows, and what was begun for
   payers is waited for; no longer than the grace time. The rest is the next sweep's.
3. An application without a lifespan has one all the same. One that fails to start fails as it would alone.
"""

import asyncio
import logging
import math
from enum import Enum
from typing import Any

import anyio

from faregate.checkout.asgi_scope import Message, Receive, Scope, Send
from faregate.checkout.shielding import is_cancelled_from_outside, wait_shielded
from faregate.core.models import is_number
from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.maintenance.sweep_loop import sweep_until
from faregate.paywall import Paywall


class Phase(Enum):
    """How far it has come; the value is the message that ends it."""

    NOT_STARTED = "lifespan.startup"
    STARTING = "lifespan.startup.complete"
    SERVING = "lifespan.shutdown"
    ENDING = "lifespan.shutdown.complete"
    OVER = ""


_NEXT = {
    "lifespan.startup": Phase.STARTING,
    "lifespan.startup.complete": Phase.SERVING,
    "lifespan.startup.failed": Phase.OVER,
    "lifespan.shutdown": Phase.ENDING,
    "lifespan.shutdown.complete": Phase.OVER,
    "lifespan.shutdown.failed": Phase.OVER,
}


class Lifespan:
    """One life of the application behind a paywall. `sweep_every` None does not sweep."""

    def __init__(
        self, paywall: Paywall, sweep_every: float | None, drain_seconds: float, receive: Receive, send: Send
    ) -> None:
        self._paywall = paywall
        self._sweep_every = sweep_every
        self._drain_seconds = drain_seconds
        self._server_receive = receive
        self._server_send = send
        self._phase = Phase.NOT_STARTED
        self._ending = anyio.Event()
        self._swept = anyio.Event()
        self._sweep = anyio.CancelScope()
        self._is_drained = False

    async def run(self, app: Any, scope: Scope) -> None:
        fault: Exception | None = None
        async with anyio.create_task_group() as self._tasks:
            try:
                await app(scope, self._receive, self._send)
            except Exception as error:
                # Raise it below: the task group would wrap it in an exception group.
                fault = error
            if fault is not None and self._phase is Phase.NOT_STARTED:
                log("sweep", logging.DEBUG, "the application has no lifespan: %r", fault)
                fault = None
            if fault is None:
                await self._finish_alone()
            self._sweep.cancel()
        if fault is not None:
            raise fault

    async def _finish_alone(self) -> None:
        """The application has no lifespan, or left before its end."""
        while self._phase is not Phase.OVER:
            if self._phase in (Phase.NOT_STARTED, Phase.SERVING):
                await self._receive()
            else:
                await self._send({"type": self._phase.value})

    async def _receive(self) -> Message:
        message = await self._server_receive()
        if message["type"] == "lifespan.shutdown":
            await self._drain()
        self._phase = _NEXT.get(message["type"], self._phase)
        return message

    async def _send(self, message: Message) -> None:
        if message["type"] not in _NEXT:
            raise RuntimeError(f"{message['type']} is not a lifespan message")
        # If the drain timed out, running requests still need the connections.
        if self._is_drained:
            await self._paywall.aclose()
        if message["type"] == "lifespan.startup.complete":
            await self._paywall.astart()
        self._phase = _NEXT[message["type"]]
        await self._server_send(message)
        if self._phase is Phase.SERVING and self._sweep_every is not None:
            self._tasks.start_soon(self._keep_sweeping, self._sweep_every)

    async def _keep_sweeping(self, every: float) -> None:
        try:
            with self._sweep:
                await self._sweep_again(every)
        except asyncio.CancelledError as ended:
            if is_cancelled_from_outside(ended):
                raise
            # The sweep's own cancellation, raised again by a library that it calls. It must not end the
            # application.
        finally:
            self._swept.set()

    async def _sweep_again(self, every: float) -> None:
        while not self._ending.is_set():
            try:
                await sweep_until(self._ending, self._paywall, every)
            except asyncio.CancelledError as ended:
                if is_cancelled_from_outside(ended):
                    raise
                log("sweep", logging.WARNING, "the sweep will try again: its call was cancelled")
                with anyio.move_on_after(every):
                    await self._ending.wait()

    async def _drain(self) -> None:
        self._ending.set()
        with anyio.move_on_after(self._drain_seconds):
            if self._sweep_every is not None:
                await self._swept.wait()
            await wait_shielded()
            self._is_drained = True
        self._sweep.cancel()
        if not self._is_drained:
            log(
                "sweep",
                logging.WARNING,
                "the shutdown waited %g s; requests that still run are left to the sweep",
                self._drain_seconds,
            )


async def fail_start(mistake: ConfigurationError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a lifespan with a failed start, and raise the mistake. Other requests only raise it."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.failed", "message": f"faregate: {mistake}"})
    # Servers have the message; test clients wait for the exception. Its traceback would grow.
    raise mistake.with_traceback(None)


def check_lifespan(sweep_every: float | None, drain_seconds: float) -> None:
    """Raises `ConfigurationError`."""
    if sweep_every is not None and not (is_number(sweep_every) and 0 < sweep_every < math.inf):
        raise ConfigurationError("sweep_every must be a number of seconds above 0, or None not to sweep.")
    if not (is_number(drain_seconds) and 0 <= drain_seconds < math.inf):
        raise ConfigurationError("drain_seconds must be a number of seconds, 0 or more.")
