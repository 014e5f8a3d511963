"""One server of each kind for a whole run of tests, started by the first test that needs it.

Processes that a test starts find it in their environment. Where its program is missing, tests that need it
are skipped and counted; where nothing may be skipped (`TESTS_NEED`), they fail.
"""

import atexit
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

import pytest

from tests.servers.mariadb import MARIADB_MISSING, mariadb_server
from tests.servers.postgres import POSTGRES_MISSING, postgres_server
from tests.servers.redis import REDIS_MISSING, redis_server

NEED = "TESTS_NEED"
_SERVERS: dict[str, tuple[Callable[[], AbstractContextManager[str]], str]] = {
    "redis": (redis_server, REDIS_MISSING),
    "postgres": (postgres_server, POSTGRES_MISSING),
    # Forced to the disk once a second: with every write, tests would take ten times as long.
    "mariadb": (partial(mariadb_server, {"innodb-flush-log-at-trx-commit": "0"}), MARIADB_MISSING),
}
_servers = ExitStack()
_owners: set[int] = set()
"""The process that has started them. A fork of it does not stop them."""

not_run: Counter[str] = Counter()
"""Why tests were skipped, and how many."""


def shared(name: str) -> str:
    """The URL of the `redis`, `postgres` or `mariadb` of this run: keep to a namespace of your own."""
    variable = f"TESTS_{name.upper()}"
    if variable not in os.environ:
        start, missing = _SERVERS[name]
        need(name, missing)
        _owners.add(os.getpid())
        os.environ[variable] = _servers.enter_context(start())
    return os.environ[variable]


def need(name: str, missing: str) -> None:
    """Go on unless something is `missing`: for tests that start a server themselves."""
    if not missing:
        return
    if name in os.environ.get(NEED, "").split(","):
        pytest.fail(f"{missing}, and {NEED} says that it must be")
    not_run[missing] += 1
    pytest.skip(missing)


@atexit.register
def _end() -> None:
    if os.getpid() in _owners:
        _servers.close()
