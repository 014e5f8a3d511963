"""A server process with a folder and a port of its own; it can be stopped, killed and started again."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from pathlib import Path

SUPERVISOR = Path(__file__).with_name("supervisor.py")
START_SECONDS = 30.0
TRIES = 3


class StoreServer(ABC):
    """`folder` holds the data and the log, and lasts until `leave`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="faregate-server-"))
        self.port = free_port()
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def command(self) -> list[str]:
        """What starts the server, in the foreground."""

    @abstractmethod
    def is_ready(self) -> bool: ...

    @abstractmethod
    def pid(self) -> int:
        """Of the server itself, as it wrote it down."""

    stop_signal = signal.SIGTERM

    def open(self) -> None:
        """Start for the first time. Somebody else may have taken the port meanwhile: then on another one."""
        for _ in range(TRIES - 1):
            try:
                self.start()
                return
            except RuntimeError:
                self.port = free_port()
        self.start()

    def start(self) -> None:
        """Raises `RuntimeError` with the end of the server's log."""
        with (self.folder / "log").open("ab") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-S", str(SUPERVISOR), *self.command()],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if time.monotonic() > end or self._supervisor.poll() is not None:
                self._ended()
                raise RuntimeError(f"{self.command()[0]} does not start:\n{self.said()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """In good order: what was written is on the disk."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """As a crash does."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._supervisor is not None:
            for pid in self.pids() if how is signal.SIGKILL else [self.pid()]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
            self._supervisor.wait()
            self._ended()

    def pids(self) -> list[int]:
        """All that must die in a crash: the server and its children."""
        pid = self.pid()
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return [pid, *map(int, children.read_text().split() if children.exists() else ())]

    def _ended(self) -> None:
        """Close the supervisor's input, which ends the server if it still runs."""
        assert self._supervisor is not None
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        self._supervisor.wait()
        self._supervisor = None

    @contextlib.contextmanager
    def serving(self) -> Generator[str]:
        """Run while the block does, and give its URL."""
        try:
            self.open()
            yield self.url
        finally:
            self.leave()

    def leave(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder)

    def said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
