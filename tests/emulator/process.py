"""`faregate emulator` as a process."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tests.support.preloaded import PreloadedPython


@contextmanager
def running(*arguments: str) -> Generator[tuple[str, PreloadedPython]]:
    """The command while it runs, and the first line it prints; killed if it outlives the block."""
    with PreloadedPython(["-m", "faregate", "emulator", *arguments]) as process:
        try:
            yield process.stdout.readline(), process
        finally:
            process.kill()


@contextmanager
def started(*arguments: str) -> Generator[tuple[str, "subprocess.Popen[str]"]]:
    """The same in a process that imports everything itself, and with warnings as errors."""
    command = [sys.executable, "-W", "error", "-m", "faregate", "emulator", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline(), process
        finally:
            process.kill()
