"""Commands of a page as a reader runs them: in a shell, each terminal with its environment."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

_BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LEFT_OUT = ("DJANGO", "FAREGATE", "PYTEST", "PYTHON", "VIRTUAL_ENV")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


def find_blocks(page: str, kind: str) -> list[str]:
    """Return the code blocks of this kind, such as `sh`."""
    return [found["text"] for found in _BLOCK.finditer(page) if found["kind"] == kind]


class Terminal:
    """A shell in a folder. Exports last from one command to the next.

    Commands are looked for in `programs` first: those of this interpreter, unless others are given. Of this
    process's environment, settings of faregate and of Python are left out; `environ` is added.
    """

    def __init__(
        self, folder: Path, environ: Mapping[str, str] | None = None, *, programs: Path | None = None
    ) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
        path = f"{programs or Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        self.environ = {**kept, "PATH": path, "PYTHONUNBUFFERED": "1", **(environ or {})}

    def run(self, script: str, *, seconds: float = 180) -> str:
        """Run a script to its end, and return what it says on standard output."""
        done = subprocess.run(
            ["sh", "-e", "-c", script + "\nenv -0 > .environment"],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        pairs = (self.folder / ".environment").read_text().split("\0")
        self.environ = dict(pair.split("=", 1) for pair in pairs if pair)
        return done.stdout

    @contextmanager
    def start(self, command: str, says: re.Pattern[str] = ADDRESS) -> Generator[str]:
        """Run a command until the block ends, and give what it says once it is ready: its address."""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
            process = subprocess.Popen(
                ["sh", "-c", f"exec env {command}"],  # env: a command may begin with variables
                cwd=self.folder,
                env=self.environ,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                give_up = time.monotonic() + 60
                while True:
                    has_ended = process.poll() is not None
                    log.seek(0)
                    said = log.read()
                    if found := says.search(said):
                        yield found.group()
                        break
                    assert not has_ended, f"{command}\n{said}"
                    assert time.monotonic() < give_up, f"{command}\n{said}"
                    time.sleep(0.05)
            finally:
                process.terminate()
                process.wait(30)
