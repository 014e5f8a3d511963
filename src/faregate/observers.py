"""What watches a paywall: observers of its events, the log of its sales, and its instrumentation.

Nothing here raises into a flow, even if a listener, a log filter, a log handler or an instrumentation does:
that is logged, and changes nothing.
"""

import inspect
import json
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar

from faregate.core.claim_types import PendingPayment
from faregate.core.models import OfferRevision, Outcome, PaidRequest
from faregate.errors import ConfigurationError
from faregate.events import Event, Failed, Held, Redelivered, Released, Sale, Settled, Stuck
from faregate.logs import get_logger, log

# Observers of events

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

    Raises `ConfigurationError` for one that cannot be called, or whose result must be awaited.
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
        """A plain function may still return an awaitable, such as a lambda around an async one."""
        # Import it here: a blocking process needs no asyncio.
        from asyncio import isfuture

        if isfuture(result):
            return
        if not (inspect.isawaitable(result) or isinstance(result, (Generator, AsyncGenerator))):
            return
        # Close it, or Python warns later that it was never awaited.
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
        # Each observer on its own: an error of one keeps no other from the event.
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
    # With O_APPEND and a single write, processes that share the file do not mix lines.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)


# The log of sales: one line for each, on the logger `faregate.sale`, as text and as fields


class SaleOutcome(StrEnum):
    """What became of a sale when its request, or a sweep, was done with it."""

    DELIVERED = "delivered"
    """Paid, and the result is on its way to the payer."""
    REDELIVERED = "redelivered"
    """The same result once more, for the same payment."""
    SETTLED = "settled"
    """Paid, and no payer waits for the result: a sweep found out, or there is none."""
    HELD = "held"
    """Not proven yet."""
    FAILED = "failed"
    """Nothing was charged."""
    STUCK = "stuck"
    """Not proven, and an operator has to look."""


EndEvent = Released | Redelivered | Settled | Held | Failed | Stuck
_OUTCOMES: dict[type, SaleOutcome] = {
    Released: SaleOutcome.DELIVERED,
    Redelivered: SaleOutcome.REDELIVERED,
    Settled: SaleOutcome.SETTLED,
    Held: SaleOutcome.HELD,
    Failed: SaleOutcome.FAILED,
    Stuck: SaleOutcome.STUCK,
}


def find_outcome(event: Event) -> tuple[EndEvent, SaleOutcome] | None:
    """Return the event with its outcome if a request or a sweep is done with the sale; else None."""
    if not isinstance(event, EndEvent) or (isinstance(event, Settled) and event.awaited):
        return None  # what is awaited is `Released` next
    return event, _OUTCOMES[type(event)]


class SaleLog:
    """An observer that logs the end of each sale."""

    def __init__(self) -> None:
        self._logger = get_logger("sale")

    def is_listening(self) -> bool:
        return self._logger.isEnabledFor(logging.INFO)

    def receive(self, event: Event) -> None:
        ended = find_outcome(event)
        if ended is None:
            return
        end, outcome = ended
        fields = _list_fields(end, outcome)
        log("sale", logging.INFO, "%s", _format(end, outcome), fields=fields)


def _list_fields(end: EndEvent, outcome: SaleOutcome) -> dict[str, Any]:
    sale_fields = {name: value for name in _FIELDS if (value := getattr(end.sale, name)) is not None}
    reason = _find_reason(end)
    return {
        "transaction_id": end.transaction_id,
        "outcome": str(outcome),
        **({"reason": reason} if reason else {}),
        **sale_fields,
    }


_FIELDS = tuple(field.name for field in fields(Sale))


def _find_reason(end: EndEvent) -> str:
    match end:
        case Held(_, reason) | Stuck(_, reason):
            return reason
        case Failed(_, code):
            return code
        case _:
            return ""


def _format(end: EndEvent, outcome: SaleOutcome) -> str:
    """One line, such as `sale of text_summary delivered: GET /summary, status 200, 10000 USDC [txn_...]`."""
    sale, reason = end.sale, _find_reason(end)
    parts = [
        reason,
        " ".join(part for part in (sale.method, sale.route) if part),
        f"status {sale.status}" if sale.status else "",
        _format_amount(sale),
        *(
            f"{name} {took} ms"
            for name, took in (
                ("access", sale.access_ms),
                ("work", sale.work_ms),
                ("complete", sale.complete_ms),
            )
            if took is not None
        ),
    ]
    what = sale.offer or sale.revision_id or "an unknown offer"
    details = ", ".join(part for part in parts if part)
    return f"sale of {what} {outcome}{': ' if details else ''}{details} [{end.transaction_id}]"


def _format_amount(sale: Sale) -> str:
    if sale.amount is None:
        return ""
    most = "" if sale.authorized is None else f" of {sale.authorized}"
    return f"{sale.amount}{most} atomic {sale.asset}"


# Instrumentation: what watches calls, work and sweeps, as `faregate.telemetry` does with OpenTelemetry

T = TypeVar("T")


class Span(Protocol):
    """One operation that is watched, from its beginning."""

    def end(self, result: object, /) -> None:
        """Called once, with what the operation gave or raised; None if it gave nothing."""
        ...


class Instrumentation(Protocol):
    """Watches operations, beside the events. Each method is called in the context of its operation."""

    def begin_access(self, request: PaidRequest, revision: OfferRevision, /) -> Span: ...

    def begin_work(self, request: PaidRequest, transaction_id: str | None, /) -> Span: ...

    def begin_complete(self, payment: PendingPayment, outcome: Outcome, /) -> Span: ...

    def begin_sweep(self) -> Span: ...


class GuardedSpan(AbstractContextManager["GuardedSpan"]):
    """A span that raises nothing; None if it could not be begun."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def end(self, result: object) -> None:
        span = self._span
        if span is not None:
            _guard(lambda: span.end(result))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)


class GuardedInstrumentation:
    """An instrumentation that raises nothing: neither itself nor through its spans."""

    def __init__(self, watching: Instrumentation) -> None:
        self._watching = watching

    def begin_access(self, request: PaidRequest, revision: OfferRevision) -> GuardedSpan:
        return GuardedSpan(_guard(lambda: self._watching.begin_access(request, revision)))

    def begin_work(self, request: PaidRequest, transaction_id: str | None) -> GuardedSpan:
        return GuardedSpan(_guard(lambda: self._watching.begin_work(request, transaction_id)))

    def begin_complete(self, payment: PendingPayment, outcome: Outcome) -> GuardedSpan:
        return GuardedSpan(_guard(lambda: self._watching.begin_complete(payment, outcome)))

    def begin_sweep(self) -> GuardedSpan:
        return GuardedSpan(_guard(self._watching.begin_sweep))


def watch_sweep(instrumentation: GuardedInstrumentation | None) -> AbstractContextManager[object]:
    """Watch a sweep for as long as this context is open."""
    return nullcontext() if instrumentation is None else instrumentation.begin_sweep()


def _guard(action: Callable[[], T]) -> T | None:
    try:
        return action()
    except Exception as error:
        log("events", logging.ERROR, "tracing failed, and what it watches goes on", error=error)
        return None
