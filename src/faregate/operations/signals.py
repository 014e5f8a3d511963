"""Let a command finish its current step on SIGTERM or Ctrl-C."""

import select
import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ShutdownSignal:
    """`is_asked` once the process was told to end. Told a second time, it ends as any other does.

    Python hears a signal between two calls, and in the main thread alone: in another this hears nothing.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "ShutdownSignal":
        self._ear, self._mouth = socket.socketpair()
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._restore()
        self._ear.close()
        self._mouth.close()

    def rest(self, seconds: float) -> None:
        """Pause for so long; not at all once it is asked."""
        select.select([self._ear], [], [], seconds)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        # Nothing here may take a lock: whoever is interrupted may hold it.
        self.is_asked = True
        self._restore()
        self._mouth.send(b".")

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}
