"""One emulator server for all tests of a process, on which each test has a tenant of its own.

Not part of `emulator.py`, because only tests that need HTTP should pay for importing uvicorn.
"""

import itertools
import os
import re
from collections.abc import Generator
from contextlib import contextmanager

from faregate.emulator.emulator import Emulator
from faregate.emulator.server import serve
from faregate.emulator.tenants import Tenants
from faregate.service.builtin import build_tenant_keys

_numbers = itertools.count(1)


def make_tenant_name(test: str) -> str:
    """Make a name for this test's tenant: unique to this pytest-xdist worker, and never used twice in it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return f"{worker}-{next(_numbers)}-{re.sub('[^A-Za-z0-9_-]+', '-', test)[:60].strip('-')}"


def make_tenant_key(name: str) -> str:
    """The API key of the tenant of this name, in test."""
    return build_tenant_keys(name)[0].key


class SharedServer:
    """Starts when the first test needs it. `url` is the same for all tests."""

    def __init__(self, url: str, tenants: Tenants) -> None:
        self.url = url
        self._tenants = tenants

    @contextmanager
    def serve_tenant(self, name: str, emulator: Emulator) -> Generator[str]:
        """Yield the URL, where the keys of this name reach this emulator while the block runs."""
        self._tenants.add(name, emulator)
        try:
            yield self.url
        finally:
            self._tenants.delete(name)


@contextmanager
def start_server() -> Generator[SharedServer]:
    tenants = Tenants(Emulator())
    with serve(tenants) as url:
        yield SharedServer(url, tenants)
