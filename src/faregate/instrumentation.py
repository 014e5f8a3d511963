"""Watch the calls, the work and the sweeps of a paywall, as `faregate.telemetry` does with OpenTelemetry.

Whatever an instrumentation raises is logged and changes nothing: `GuardedInstrumentation` sees to it.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Protocol, TypeVar

from faregate.core.claims import PendingPayment
from faregate.core.models import OfferRevision, Outcome, PaidRequest
from faregate.logs import log

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
