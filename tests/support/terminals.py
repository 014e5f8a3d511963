"""Run a command of `faregate` as people do, in a terminal, and as programs do, in a pipe.

Each is a fork of this process, which has everything imported: a fresh interpreter would take a second.
"""

import errno
import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import FileIO, TextIOWrapper

from faregate.cli import main

ROWS = 40
for _name in (
    "faregate.cli.listing",
    "faregate.cli.receipt",
    "faregate.cli.report",
    "rich.table",
    "rich.console",
):
    import_module(_name)  # once, and not in each fork


@dataclass(frozen=True)
class Ran:
    status: int
    stdout: str
    stderr: str = ""


def in_terminal(words: Sequence[str], settings: Mapping[str, str], *, columns: int = 100) -> Ran:
    """What a terminal of this width got, from both streams."""
    pid, terminal = pty.fork()
    if not pid:
        # The variables would win over the size of the terminal.
        # Before the command looks: set from outside, the size could come too late.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        _run(words, {**settings, "COLUMNS": "", "LINES": "", "TERM": "xterm-256color"})
    said = b"".join(iter(lambda: _read(terminal), b""))
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    # A busy machine shows a progress, which is erased.
    text = re.sub(r"(?:\r\x1b\[K  [^\r\n]*)+\r\x1b\[K", "", said.decode().replace("\r\n", "\n"))
    return Ran(os.waitstatus_to_exitcode(status), text)


def in_pipe(words: Sequence[str], settings: Mapping[str, str]) -> Ran:
    """What a program got that reads both streams."""
    with tempfile.TemporaryFile() as errors:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.dup2(writing, 1)
            os.dup2(errors.fileno(), 2)
            os.close(reading)
            _run(words, settings)
        os.close(writing)
        said = b"".join(iter(lambda: os.read(reading, 65536), b""))
        os.close(reading)
        _, status = os.waitpid(pid, 0)
        errors.seek(0)
        return Ran(os.waitstatus_to_exitcode(status), said.decode(), errors.read().decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError as error:
        if error.errno == errno.EIO:  # Linux: nobody has the other side any more
            return b""
        raise


def _run(words: Sequence[str], settings: Mapping[str, str]) -> None:
    """In the child. What pytest put in place of the streams is taken away."""
    status = 70
    try:
        for name in [name for name in os.environ if name.startswith(("FAREGATE_", "NO_COLOR"))]:
            del os.environ[name]
        os.environ.update(settings)
        for name in [name for name, value in settings.items() if not value]:
            del os.environ[name]
        sys.stdin = TextIOWrapper(FileIO(0, closefd=False))
        sys.stdout = TextIOWrapper(FileIO(1, "w", closefd=False), encoding="utf-8", write_through=True)
        sys.stderr = TextIOWrapper(FileIO(2, "w", closefd=False), encoding="utf-8", write_through=True)
        try:
            status = main(words)
        except SystemExit as stopped:
            status = stopped.code if isinstance(stopped.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
