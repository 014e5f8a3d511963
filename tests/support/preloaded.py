"""Python processes that start with most modules imported: forked from one process that has nothing else.

A process of its own takes 0.5 to 1.5 s of CPU to import what most tests need; one of these takes 0.02 s. What
a test says of a start itself (imports, options of the interpreter, the command on the path) needs a real one.
"""

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Self

from tests.support.fork_server import Start
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


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


class PreloadedPython:
    """A process that does what `python *words` would: `-c code`, `-m module` or a file, and arguments.

    As of `subprocess.Popen`, `stdin` is written and `stdout` is read here, as text. What it writes as errors
    goes to the file `errors`, or where ours go. With `log`, all that it writes is added to that file. With
    `own_group`, signals also reach what it started, and what it leaves behind is killed.
    """

    def __init__(
        self,
        words: Sequence[str],
        env: dict[str, str] | None = None,
        cwd: str = "",
        errors: Path | None = None,
        *,
        log: Path | None = None,
        own_group: bool = False,
    ) -> None:
        environ = dict(os.environ if env is None else env)
        start = Start(list(words), environ, cwd or os.getcwd(), own_group)
        (taken, given), (reading, writing) = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(given, "w"), os.fdopen(reading)
        self._own_group = own_group
        self._connection = _connect()
        with os.fdopen(taken), os.fdopen(writing, "w") as output, contextlib.ExitStack() as stack:
            out: int = output.fileno()
            problems: IO[bytes] | int = 2
            if log is not None:
                problems = stack.enter_context(log.open("ab"))
                out = problems.fileno()
            elif errors is not None:
                problems = stack.enter_context(errors.open("wb"))
            descriptors = [taken, out, problems if isinstance(problems, int) else problems.fileno()]
            socket.send_fds(self._connection, [json.dumps(asdict(start)).encode()], descriptors)
            self._lines = self._connection.makefile("r")
            self.pid = int(self._lines.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired("python", timeout or 0.0)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._connection.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Return what it wrote, and that nothing is known of its errors. It must fit a pipe: 64 KiB."""
        self.stdin.close()
        self.wait(timeout)
        with self.stdout:
            return self.stdout.read(), None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if self._own_group else os.kill)(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Wait until it has ended, which it is to do by itself or was told to, and give back what it took."""
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connect() -> socket.socket:
    start_server()
    return _dial()


def _dial() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(find_address())
    except OSError:
        connection.close()
        raise
    return connection


@cache
def start_server() -> None:
    """Start the server, unless another process of this run has. It lives until all have ended.

    It imports in the background: the first process that is asked for may have to wait.
    """
    end = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError):
            atexit.register(_dial().close)
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as listener:
            listener.bind(find_address())
            listener.listen(256)
            listener.set_inheritable(True)
            words = [sys.executable, "-m", "tests.support.fork_server", str(listener.fileno())]
            # The package beside these tests, also in a copy of them in which a rule is broken.
            places = os.pathsep.join((str(ROOT), str(ROOT / "src")))
            os.posix_spawn(sys.executable, words, {**os.environ, "PYTHONPATH": places})
        if time.monotonic() > end:
            raise TimeoutError(f"nobody serves at {find_address()}")
        time.sleep(0.01)  # another process may have bound the address, and not listen yet


@cache
def find_address() -> str:
    """Return the server's address: the same for all processes of a run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"alone-{os.getpid()}"
    return os.path.join(tempfile.gettempdir(), f"faregate-tests-{run}")
