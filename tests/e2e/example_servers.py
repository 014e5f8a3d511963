"""Servers of examples, forked from a process that has imported much. One test per command starts Python."""

import os
import re
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.demo.servers import DidNotStart, clean_environment

from tests.support.preloaded import PreloadedPython
from tests.support.waiting import PATIENCE

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@contextmanager
def preloaded_server(name: str, module: Sequence[str], environ: Mapping[str, str]) -> Generator[str]:
    """What `examples.demo.servers.server` does, in less than a tenth of the time."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        settings = {**clean_environment(os.environ), **environ}
        with PreloadedPython(["-m", *module], settings, log=log, own_group=True) as process:
            try:
                yield _find_address(name, process, log)
            finally:
                process.terminate()


def _find_address(name: str, process: PreloadedPython, log: Path) -> str:
    end = time.monotonic() + PATIENCE
    while True:
        has_ended = process.poll() is not None
        said = log.read_text()
        if found := _ADDRESS.search(said):
            return found.group()
        if has_ended or time.monotonic() > end:
            raise DidNotStart(f"{name} did not start:\n{said}")
        time.sleep(0.02)
