"""`faregate emulator` as a process."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def running(*arguments: str) -> Generator[tuple[str, "subprocess.Popen[str]"]]:
    """The command while it runs, and the first line it prints; killed if it outlives the block."""
    command = [sys.executable, "-W", "error", "-m", "faregate", "emulator", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline(), process
        finally:
            process.kill()
