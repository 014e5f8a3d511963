"""Whose turn it is: one caller at a time, and none waits for longer than its patience.

A lock would do, were it not for signals: one that comes right after a lock was taken, and before anybody
could note that it was, leaves it taken for ever. Here the turn itself says whose it is.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Caller:
    """One who wants a turn. While nobody has it, whoever comes takes it, but never before a `firm` one.

    A caller may be taken along in another's turn; it is `served` when what it came for was done there.
    """

    __slots__ = ("bell", "firm", "gone", "served")

    def __init__(self, firm: bool = False) -> None:
        self.firm = firm
        self.served = self.gone = False
        self.bell: threading.Lock | None = None

    def ring(self) -> None:
        if self.bell is not None and self.bell.locked():
            self.bell.release()


C = TypeVar("C", bound=Caller)


class FairLock:
    """Callers in a line. Nothing that is done behind the `_door` waits for anything."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._door = threading.Lock()
        self._line: deque[Caller] = deque()
        self._taken: list[Caller] = []
        self._whose: Caller | None = None

    def run(self, caller: Caller, act: Callable[[], T]) -> T | None:
        """`act` in a turn of the caller's own, unless it is served in another's. Raises `TimeoutError`."""
        try:
            return act() if self.come(caller) else None
        finally:
            try:
                self.leave(caller)
            except BaseException:  # a signal, which came before it was done
                self.leave(caller)
                raise

    def come(self, caller: Caller) -> bool:
        """Wait; False if served. `leave` must follow in any case."""
        with self._door:
            if self._may_have_it(caller):
                self._whose = caller
                return True
            caller.bell = threading.Lock()
            caller.bell.acquire()
            self._line.append(caller)
        return self._wait(caller, caller.bell, time.monotonic() + self._patience)

    def _may_have_it(self, caller: Caller) -> bool:
        line = self._line
        return self._whose is None and (not line or line[0] is caller or not line[0].firm)

    def _wait(self, caller: Caller, bell: threading.Lock, end: float) -> bool:
        timeout = self._patience
        while True:
            rung = bell.acquire(timeout=timeout)
            with self._door:
                if caller.served:
                    return False
                if caller not in self._line:
                    timeout = -1.0  # taken along: it is not to give up before it knows what became of it
                elif self._may_have_it(caller):
                    self._line.remove(caller)
                    self._whose = caller
                    return True
                elif not rung:
                    raise TimeoutError
                else:
                    timeout = max(0.0, end - time.monotonic())

    def leave(self, caller: Caller) -> None:
        """Whether it had the turn, waited or was served. May be done again."""
        with self._door:
            caller.gone = True
            if caller in self._line:
                self._line.remove(caller)
            if self._whose is caller:
                self._put_back()
            if self._whose is None and self._line:
                self._line[0].ring()

    # In one's turn

    def any_waits(self, wanted: Callable[[Caller], bool]) -> bool:
        with self._door:
            return any(map(wanted, self._line))

    def take(self, kind: type[C], wanted: Callable[[C], bool]) -> list[C]:
        """Take along all who wait and are wanted. Who is not served then is put back when the turn ends."""
        taken: list[C] = []
        rest: deque[Caller] = deque()
        with self._door:
            for caller in self._line:
                if isinstance(caller, kind) and wanted(caller):
                    taken.append(caller)
                else:
                    rest.append(caller)
            self._line, self._taken = rest, [*taken]
        return taken

    def serve(self) -> None:
        """All who were taken along have what they came for."""
        with self._door:
            for caller in self._taken:
                caller.served = True
                caller.ring()

    def _put_back(self) -> None:
        back = deque(caller for caller in self._taken if not caller.served and not caller.gone)
        for caller in back:
            caller.ring()
        back.extend(self._line)
        self._line, self._taken, self._whose = back, [], None
