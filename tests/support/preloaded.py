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
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

PRELOADED = (
    "tests.support.key_files",
    *("anyio._backends._asyncio", "concurrent.futures.thread", "httpx", "starlette.applications"),
    *("uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto", "uvloop"),
    *("faregate.cli", "faregate.emulator.cli", "faregate.emulator.console.app", "faregate.emulator.server"),
    *("faregate.selfhosted.cli", "faregate.selfhosted.commands.serve", "faregate.selfhosted.commands.work"),
    *("alembic.command", "alembic.script", "psycopg", "sqlalchemy.dialects.postgresql.psycopg"),
    *("x402.facilitator", "x402.mechanisms.evm.exact", "x402.schemas"),
    *("faregate.journals.postgres", "faregate.journals.redis", "faregate.journals.sqlite"),
    *("django.contrib.admin", "django.contrib.messages", "django.core.management.commands.migrate"),
    *("django.db.backends.postgresql.base", "django.db.backends.sqlite3.base", "pymysql", "rest_framework"),
    *("tests.core.flow_script", "tests.journals.rows", "tests.journals.stores", "tests.support.preloaded"),
)
"""Django is not set up: not every process is of the same project."""
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(PRELOADED))


def run_preloaded(
    words: Sequence[str], env: dict[str, str], cwd: Path, seconds: float = 120
) -> "subprocess.CompletedProcess[str]":
    """Run it to its end. It must write less than fits a pipe: 64 KiB."""
    with TemporaryDirectory() as folder:
        errors = Path(folder) / "errors"
        with PreloadedPython(words, env, str(cwd), errors) as process:
            said, _ = process.communicate(seconds)
        assert process.returncode is not None
        return subprocess.CompletedProcess(list(words), process.returncode, said, errors.read_text())


@dataclass(frozen=True)
class _Start:
    words: list[str]
    environ: dict[str, str]
    cwd: str
    errors: Path | None


class PreloadedPython:
    """A process that does what `python *words` would: `-c code`, `-m module` or a file, and arguments.

    As of `subprocess.Popen`, `stdin` is written and `stdout` is read here, as text. What it writes as errors
    goes to the file `errors`, or where ours go.
    """

    def __init__(
        self,
        words: Sequence[str],
        env: dict[str, str] | None = None,
        cwd: str = "",
        errors: Path | None = None,
    ) -> None:
        (reading, writing), (taken, given) = os.pipe(), os.pipe()
        start = _Start(list(words), dict(os.environ if env is None else env), cwd or os.getcwd(), errors)
        output, entered = Connection(writing, readable=False), Connection(taken, writable=False)
        self._process = _context.Process(target=_run, args=(start, entered, output), daemon=True)
        with output, entered:
            self._process.start()
        self.stdin, self.stdout = os.fdopen(given, "w"), os.fdopen(reading)

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
        self.stdin.close()
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
        self.stdin.close()
        self.stdout.close()
        self._process.join()


def _run(start: _Start, entered: Connection, output: Connection) -> None:
    """In the new process."""
    os.environ.clear()
    os.environ.update(start.environ)
    os.chdir(start.cwd)
    os.dup2(entered.fileno(), 0)
    os.dup2(output.fileno(), 1)
    entered.close()
    output.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  (kept until the process ends)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    if start.errors is not None:
        descriptor = os.open(start.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 2)
        os.close(descriptor)
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
        sys.path.insert(0, start.cwd)
        sys.argv = start.words
        runpy.run_path(option, run_name="__main__")
