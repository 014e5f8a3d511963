"""The work of one payment, from when its handler may run: its time, its trace, and what it writes beside."""

from collections.abc import Callable
from time import monotonic

from faregate.core.models import HandlerResult
from faregate.observers import GuardedSpan

Restore = Callable[[], None]
"""Takes back what a handler wrote beside its response, as into a session."""


class Work:
    """The work of one payment, which may take `seconds`. `undo` is set for a handler; `span` traces it."""

    undo: Restore | None = None
    span: GuardedSpan | None = None

    def __init__(self, start: float, seconds: float) -> None:
        self._start = start
        self.seconds = seconds

    @property
    def is_late(self) -> bool:
        return monotonic() - self._start > self.seconds

    def get_duration(self) -> int:
        """Return for how long the work has run, in milliseconds."""
        return int((monotonic() - self._start) * 1000)

    def end(self, result: HandlerResult | BaseException | None) -> None:
        """End the trace, once."""
        span, self.span = self.span, None
        if span is not None:
            span.end(result)

    def restore(self, *, is_released: bool = False) -> None:
        """Take back what the handler wrote, once; keep it for good if its result is released."""
        undo, self.undo = self.undo, None
        if undo is not None and not is_released:
            undo()
