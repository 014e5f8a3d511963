"""Dispatch events to observers, and write transaction ids to the fallback file.

No function here raises into a flow, even if a listener, a log filter or a log handler does.
"""

import inspect
import json
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from typing import Protocol

from faregate.errors import ConfigurationError
from faregate.events import Event
from faregate.logs import log
from faregate.sale_log import SaleLog

Listener = Callable[[Event], object]
"""Called with each event, in the thread or loop of the request. It must not block, and is not awaited."""

_PLAIN = (
    "on_event must be a plain function: an async one is never awaited. Let the function put the event into a "
    "queue or start a task, and do the rest there."
)


class Observer(Protocol):
    """Receives events. Where none is listening, the flow of a sale that goes well makes no events."""

    def is_listening(self) -> bool:
        """Whether it wants events now. Asked for each request, so it must be quick."""
        ...

    def receive(self, event: Event, /) -> None:
        """Take an event in the thread or loop of the request. It must not block."""
        ...


class CallbackObserver:
    """Calls the seller's `on_event`.

    Raises `ConfigurationError` for one that cannot be called, or that somebody would have to await.
    """

    def __init__(self, on_event: Listener) -> None:
        _check_listener(on_event)
        self._on_event = on_event
        self._has_warned = False

    def is_listening(self) -> bool:
        return True

    def receive(self, event: Event) -> None:
        try:
            result = self._on_event(event)
            if result is not None:
                self._check_result(result)
        except Exception as error:
            log("events", logging.ERROR, "on_event failed for %s", type(event).__name__, error=error)

    def _check_result(self, result: object) -> None:
        """A plain function may still give what somebody must await, such as a lambda around an async one."""
        from asyncio import isfuture

        if isfuture(result):
            return
        if not (inspect.isawaitable(result) or isinstance(result, (Generator, AsyncGenerator))):
            return
        if isinstance(result, (Coroutine, Generator)):
            result.close()
        if not self._has_warned:
            self._has_warned = True
            log("events", logging.ERROR, "on_event returned an awaitable, which is never awaited: %s", _PLAIN)


class EventDispatcher:
    """Passes events to observers, and writes ids that the journal could not record to the log and a file."""

    def __init__(self, on_event: Listener | None = None, last_resort: str = "") -> None:
        self._observers: list[Observer] = [SaleLog()]
        if on_event is not None:
            self._observers.append(CallbackObserver(on_event))
        self._file = last_resort

    def add(self, observer: Observer) -> None:
        """Add an observer, unless an equal one is there."""
        if observer not in self._observers:
            self._observers.append(observer)

    def is_listening(self) -> bool:
        """Whether anybody wants events now."""
        # Plain loops: a request asks this once, and mostly for nothing.
        for observer in self._observers:  # noqa: SIM110
            if observer.is_listening():
                return True
        return False

    def emit(self, event: Event) -> None:
        """Pass an event to the observers. Their exceptions are logged, and change nothing."""
        for observer in self._observers:
            try:
                if observer.is_listening():
                    observer.receive(event)
            except Exception as error:
                failed = type(observer).__name__
                log("events", logging.ERROR, "%s failed for %s", failed, type(event).__name__, error=error)

    def write_fallback(self, transaction_id: str, revision_id: str) -> None:
        """Access granted this transaction, and the journal does not know."""
        line = json.dumps({"transaction_id": transaction_id, "revision_id": revision_id})
        log("events", logging.CRITICAL, "the journal could not record an open transaction: %s", line)
        if not self._file:
            return
        try:
            _append(self._file, line)
        except Exception as error:
            log("events", logging.CRITICAL, "the fallback file could not be written either: %s", error)


def _check_listener(listener: object) -> None:
    if not callable(listener):
        raise ConfigurationError("on_event must be a function that takes an event.")
    while isinstance(listener, partial):
        listener = listener.func
    # A call of these runs nothing yet.
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    if any(is_kind(listener) or is_kind(type(listener).__call__) for is_kind in kinds):
        raise ConfigurationError(_PLAIN)


def _append(path: str, line: str) -> None:
    """One line in one write, on the disk when this returns."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
