"""The process from which processes of tests are forked: it has imported what they need, and nothing else.

`python -m tests.support.fork_server DESCRIPTOR` serves on the listening socket that it inherits. All pytest
processes of a run share it (`preloaded.py`). A connection asks for one process: it sends a `Start` as JSON
and three descriptors, for standard input, output and errors. It is answered two lines: the process id, and
the exit code once the process has ended. A process whose connection closes is killed. A connection that asks
for nothing stands for a pytest process: the server ends when the last one has closed.
"""

import atexit
import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import NoReturn

PRELOADED = (
    "tests.support.key_files",
    *("anyio._backends._asyncio", "concurrent.futures.thread", "httpx", "starlette.applications"),
    *("uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.main", "uvicorn.protocols.http.auto", "uvloop"),
    *("faregate.cli", "faregate.emulator.cli", "faregate.emulator.console.app", "faregate.emulator.server"),
    *("faregate.service.cli", "faregate.service.commands.serve"),
    *("alembic.command", "alembic.script", "psycopg", "sqlalchemy.dialects.postgresql.psycopg"),
    *("x402.facilitator", "x402.mechanisms.evm.exact", "x402.schemas"),
    *("faregate.journals.postgres", "faregate.journals.redis", "faregate.journals.sqlite"),
    *("django.contrib.admin", "django.contrib.messages", "django.core.management.commands.migrate"),
    *("django.db.backends.postgresql.base", "django.db.backends.sqlite3.base", "pymysql", "rest_framework"),
    *("faregate.asgi", "faregate.fastapi", "faregate.flask", "faregate.starlette", "faregate.wsgi"),
    *("bottle", "falcon", "falcon.asgi", "litestar", "quart", "werkzeug.serving"),
    *("granian.cli", "h11", "hypercorn.__main__", "pytest", "trio"),
    *("tests.core.flow_script", "tests.journals.rows", "tests.journals.stores"),
)
"""Django is not set up: not every process is of the same project. Gunicorn is left out, because a paywall
that finds it imported takes itself to run there; Waitress's command, because it keeps `sys.argv`."""
MESSAGE = 1 << 20
"""Bytes of a `Start` at most."""


@dataclass(frozen=True)
class Start:
    """What `python *words` is to be; with a process group of its own, if that is what a server needs."""

    words: list[str]
    environ: dict[str, str]
    cwd: str
    own_group: bool = False


@dataclass
class ForkServer:
    """`serve` returns in each process that it forks, and never in the server itself."""

    listener: socket.socket
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _processes: dict[socket.socket, "_Process | None"] = field(default_factory=dict)

    def serve(self) -> Start:
        reading, writing = socket.socketpair()
        writing.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked decides what Ctrl-C means
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        self._selector.register(self.listener, selectors.EVENT_READ)
        self._selector.register(reading, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is reading:
                    reading.recv(4096)
                    self._reap()
                elif (start := self._hear(key.fileobj)) is not None:  # type: ignore[arg-type]
                    self._leave(reading, writing)
                    return start

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        self._processes[connection] = None
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, connection: socket.socket) -> Start | None:
        """Fork what is asked for, and return its `Start` in the new process; or end what nobody waits for."""
        if connection not in self._processes:
            return None  # closed by what was read before it
        message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE, 3)
        if not message:
            self._close(connection)
            return None
        start = Start(**json.loads(message))
        pid = os.fork()
        if pid == 0:
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
            if start.own_group:
                os.setsid()
        for descriptor in descriptors:
            os.close(descriptor)
        if pid == 0:
            return start
        self._processes[connection] = _Process(pid, start.own_group)
        _tell(connection, pid)
        return None

    def _reap(self) -> None:
        found = {process.pid: process for process in self._processes.values() if process is not None}
        connections = {process.pid: one for one, process in self._processes.items() if process is not None}
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if pid in found:
                    found[pid].end()
                    _tell(connections[pid], os.waitstatus_to_exitcode(status))

    def _close(self, connection: socket.socket) -> None:
        process = self._processes.pop(connection)
        self._selector.unregister(connection)
        connection.close()
        if process is not None:
            process.kill()
        if not self._processes:
            os.unlink(self.listener.getsockname())
            os._exit(0)

    def _leave(self, *signals: socket.socket) -> None:
        """In a new process: keep nothing of the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        for one in (self.listener, *signals, *self._processes):
            one.close()


@dataclass
class _Process:
    pid: int
    own_group: bool
    has_ended: bool = False

    def kill(self) -> None:
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if self.own_group else os.kill)(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """It has ended by itself: what it started and left behind ends, too."""
        self.has_ended = True
        if self.own_group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def _tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(b"%d\n" % number)


def _run(start: Start) -> None:
    """Do what `python *words` does."""
    os.environ.clear()
    os.environ.update(start.environ)
    os.chdir(start.cwd)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  (kept until the process ends)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.path[:0] = [place for place in start.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    option, *arguments = start.words
    if option == "-m":
        sys.path.insert(0, start.cwd)
        sys.argv = [option, *arguments[1:]]
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.argv = [option, *arguments[1:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(arguments[0], "<string>", "exec"), main.__dict__)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(option)))
        sys.argv = start.words
        runpy.run_path(option, run_name="__main__")


def _run_to_end(body: Callable[[], None]) -> NoReturn:
    """End as the interpreter does, but for taking all modules apart, which takes a tenth of a second."""
    status = 0
    try:
        try:
            body()
        finally:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
    except SystemExit as stop:
        status = _find_status(stop.code)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _find_status(code: object) -> int:
    if isinstance(code, int):
        return code & 0xFF
    if code is not None:
        print(code, file=sys.stderr)
    return int(code is not None)


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    for name in PRELOADED:
        with contextlib.suppress(Exception):  # who needs what is not installed, or broken, is told there
            import_module(name)
    gc.collect()
    gc.freeze()  # what no process looks at is copied for none
    start = ForkServer(listener).serve()
    _run_to_end(lambda: _run(start))


if __name__ == "__main__":
    main()
