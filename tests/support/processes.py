"""Real processes, forked from one that has everything imported already, and killed for real."""

import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["alive", "stopped", "dead"]


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with these settings of faregate, and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE_")}
    return {**kept, **settings}


@dataclass
class Process:
    """A child of this one. `port` is where it serves, if it does; `killed` says that we killed it."""

    pid: int
    port: int = 0
    state: State = "alive"
    status: int = 0
    killed: bool = False

    def look(self) -> State:
        """What became of it since."""
        while self.state != "dead":
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if pid == 0:
                break
            if os.WIFSTOPPED(status):
                self.state = "stopped"
            elif os.WIFCONTINUED(status):
                self.state = "alive"
            else:
                self.state, self.status = "dead", status
        return self.state

    @property
    def died_at_its_point(self) -> bool:
        """By SIGKILL, and not by ours."""
        return self.state == "dead" and not self.killed and os.WTERMSIG(self.status) == signal.SIGKILL

    def end(self, stops: bool) -> None:
        """As it would at a point of its own: killed, or stopped only."""
        os.kill(self.pid, signal.SIGSTOP if stops else signal.SIGKILL)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        self.state, self.status = ("stopped" if stops else "dead"), status

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> bool:
        """Whether it was this that ended it."""
        if self.look() == "dead":
            return False
        self.killed = True
        os.kill(self.pid, signal.SIGKILL)
        _, self.status = os.waitpid(self.pid, 0)
        self.state = "dead"
        return True


def fork(body: Callable[[], None], foreign: Sequence[socket.socket] = ()) -> Process:
    """A process that runs `body` and ends with this one; `foreign` sockets are not its own."""
    pid = os.fork()
    if pid:
        return Process(pid)
    status = 1
    try:
        for each in foreign:
            each.close()
        _end_with_parent()
        body()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def serving(body: Callable[[socket.socket], None], foreign: Sequence[socket.socket] = ()) -> Process:
    """A process that serves on a port of its own: whoever connects may do so at once."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    with listener:
        process = fork(lambda: body(listener), foreign)
        process.port = listener.getsockname()[1]
    return process


class StartSignal:
    """What a child waits at until its parent has left the block."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    def then(self, body: Callable[[], None]) -> None:
        os.close(self._writing)
        os.read(self._reading, 1)
        os.close(self._reading)
        body()

    def __enter__(self) -> "StartSignal":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._writing)
        os.close(self._reading)


_lifeline: tuple[int, int, int] | None = None


def lifeline() -> None:
    """In a process that forks: what it forks from now on ends when it ends, however it ends."""
    global _lifeline
    _lifeline = (*os.pipe(), os.getpid())


def _end_with_parent() -> None:
    if _lifeline is None:
        return
    reading, writing, _ = _lifeline
    os.close(writing)

    def wait() -> None:
        os.read(reading, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
