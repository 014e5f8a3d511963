"""`faregate service`, within this process or in one of its own."""

import io
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from faregate.cli import main
from tests.support.preloaded import PreloadedPython

CATALOG = """\
[seller]
name = "Shop"
pay_to = "0x1111111111111111111111111111111111111111"

[[resources]]
key = "mine"
name = "Mine"
revisions = [{amount = 5}]
"""


def build_environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **settings}


def call(folder: Path, *words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in this folder, within this process: a process of its own takes seconds to start."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, build_environment(**settings), clear=True),
        patch.object(sys, "path", [*sys.path]),
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        status = main(["service", *words])
    return subprocess.CompletedProcess(words, status, out.getvalue(), errors.getvalue())


@contextmanager
def running(folder: Path, *words: str, **settings: str) -> Generator[tuple[str, PreloadedPython, Path]]:
    """The command in a process, its first line, and its errors; killed if it outlives the block."""
    log = folder / "stderr.log"
    environment = build_environment(**settings)
    with PreloadedPython(["-m", "faregate", "service", *words], environment, str(folder), log) as process:
        try:
            yield process.stdout.readline(), process, log
        finally:
            process.kill()
