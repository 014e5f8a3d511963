"""Python processes that start with most modules imported: forked from one process that has nothing else.

A process of its own takes 0.5 s of CPU to import what most tests need; one of these takes 0.02 s. What a test
says of a start itself (imports, options of the interpreter, the command on the path) needs a real start.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import types
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Self

PRELOADED = (
    *("anyio._backends._asyncio", "concurrent.futures.thread", "httpx", "starlette.applications"),
    *("uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto", "uvloop"),
    *("faregate.cli", "faregate.emulator.cli", "faregate.emulator.console.app", "faregate.emulator.server"),
    *("faregate.journals.postgres", "faregate.journals.redis", "faregate.journals.sqlite"),
    *("django.contrib.admin", "django.contrib.messages", "django.core.management.commands.migrate"),
    *("django.db.backends.postgresql.base", "django.db.backends.sqlite3.base", "pymysql", "rest_framework"),
    *("tests.core.flow_script", "tests.journals.rows", "tests.journals.stores", "tests.support.preloaded"),
)
"""Django is not set up: not every process is of the same project."""
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(PRELOADED))


class PreloadedPython:
    """A process that does what `python *words` would: `-c code`, or `-m module`, and arguments.

    As of `subprocess.Popen`, `stdout` is read here, as text; what else it writes goes where ours goes.
    """

    def __init__(self, words: Sequence[str], env: dict[str, str] | None = None, cwd: str = "") -> None:
        reading, writing = os.pipe()
        output = Connection(writing, readable=False)
        given = (list(words), dict(os.environ if env is None else env), cwd or os.getcwd(), output)
        self._process = _context.Process(target=_run, args=given, daemon=True)
        with output:
            self._process.start()
        self.stdout = os.fdopen(reading)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("python", timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Return what it wrote, and that nothing is known of its errors. It must fit a pipe: 64 KiB."""
        self.wait(timeout)
        with self.stdout:
            return self.stdout.read(), None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self._process.join()


def _run(words: list[str], environ: dict[str, str], cwd: str, output: Connection) -> None:
    """In the new process."""
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    os.dup2(output.fileno(), 1)
    output.close()
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115  (kept until the process ends)
    option, what, *arguments = words
    sys.argv = [option, *arguments]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        assert option == "-c"
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)
