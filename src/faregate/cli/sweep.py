"""`sweep`: finish interrupted and held payments, once, or until interrupted."""

import json as jsonlib
import logging
import select
import signal
import socket
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from faregate.commands import Echo
from faregate.core.recovery import BATCH, SweepReport
from faregate.errors import JournalError
from faregate.logs import log
from faregate.maintenance.journal import find_problems
from faregate.maintenance.sweep_loop import jitter
from faregate.paywall import Paywall

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_sweep(paywall: Paywall, echo: Echo, *, watch: bool, every: float, limit: int, json: bool) -> int:
    """Sweep once, or until interrupted. Raises `JournalError`, unless it watches."""
    with suppress(JournalError):  # the sweep reports it
        for problem in find_problems(paywall):
            log("journal", logging.WARNING, "%s", problem)
    try:
        if watch:
            sweep_repeatedly(paywall, every, echo, limit=limit, json=json)
        else:
            with ShutdownSignal() as shutdown:
                echo(_format(paywall.sweep(limit, lambda: shutdown.requested), json))
    except KeyboardInterrupt:
        pass  # the second Ctrl-C: the next sweep takes up what this one leaves
    return 0


def sweep_repeatedly(
    paywall: Paywall,
    every: float,
    echo: Echo,
    *,
    limit: int = BATCH,
    json: bool = False,
) -> None:
    """Sweep about every `every` seconds until a signal asks the process to stop.

    A sweep that reached `limit` is followed by the next at once. A journal that fails is reported and
    tried again: it may recover.
    """
    with ShutdownSignal() as shutdown:
        while not shutdown.requested:
            full = False
            try:
                report = paywall.sweep(limit, lambda: shutdown.requested)
                full = report.looked_at >= limit
                echo(_format(report, json))
            except JournalError as error:
                problem = f"The journal failed: {error}"
                echo(jsonlib.dumps({"error": problem}) if json else problem)
            if not full:
                shutdown.wait(jitter(every))


def _format(report: SweepReport, json: bool) -> str:
    return report.as_json() if json else report.as_text()


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
        # Never blocks: with one byte for each signal, the buffer is never full.
        self._writer.send(b".")

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            # None stands for a handler that was not set from Python, and cannot be set back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._handlers = {}
