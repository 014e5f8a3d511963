"""Let a command finish its current step on SIGTERM or Ctrl-C."""

import select
import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ShutdownSignal:
    """A context in which the first SIGINT or SIGTERM sets `requested` and interrupts `wait`.

    A second signal has the effect it had before. Outside the main thread signals cannot be handled, so
    nothing changes there.
    """

    def __init__(self) -> None:
        self.requested = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "ShutdownSignal":
        # A socket wakes `wait` up: since PEP 475, `time.sleep` goes on after a signal handler has returned.
        self._reader, self._writer = socket.socketpair()
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._restore()
        self._reader.close()
        self._writer.close()

    def wait(self, seconds: float) -> None:
        """Wait for so many seconds, or until a shutdown is requested."""
        select.select([self._reader], [], [], seconds)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        # Nothing here may take a lock: the interrupted code may hold it.
        self.requested = True
        self._restore()
        self._writer.send(b".")

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            # None stands for a handler that was not set from Python, and cannot be set back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._handlers = {}
