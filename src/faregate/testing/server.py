"""One server for all tests of a process, behind which each test has a world of its own."""

import itertools
import os
import re
from collections.abc import Generator
from contextlib import contextmanager

from faregate.emulator.emulator import Emulator
from faregate.emulator.server import serve
from faregate.emulator.tenants import Worlds

_numbers = itertools.count(1)


def world_name(test: str) -> str:
    """A name for the world of this test: of this worker, and never given twice in it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return f"{worker}-{next(_numbers)}-{re.sub('[^A-Za-z0-9_-]+', '-', test)[:60].strip('-')}"


class Server:
    """Starts when the first test needs it. `url` is the same for all."""

    def __init__(self, url: str, worlds: Worlds) -> None:
        self.url = url
        self._worlds = worlds

    @contextmanager
    def showing(self, name: str, emulator: Emulator) -> Generator[str]:
        """The URL, with this emulator behind the keys of this name while the block runs."""
        self._worlds.adopt(name, emulator)
        try:
            yield self.url
        finally:
            self._worlds.drop(name)


@contextmanager
def serving() -> Generator[Server]:
    worlds = Worlds(Emulator())
    with serve(worlds) as url:
        yield Server(url, worlds)
