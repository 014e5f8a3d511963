"""The stores of the tests: they keep what they were told, end with their tests, and are not skipped in CI."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.servers import (
    MARIADB_MISSING,
    POSTGRES_MISSING,
    REDIS_MISSING,
    MariadbServer,
    PostgresServer,
    RedisServer,
    shared,
)
from tests.support.preloaded import run_preloaded
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
SERVERS = {
    "redis": (RedisServer, REDIS_MISSING),
    "postgres": (PostgresServer, POSTGRES_MISSING),
    "mariadb": (MariadbServer, MARIADB_MISSING),
}
STARTED = """
import os, signal, sys
from tests.servers import MariadbServer, PostgresServer, RedisServer
server = {"redis": RedisServer, "postgres": PostgresServer, "mariadb": MariadbServer}[sys.argv[1]]()
server.open()
print(server.folder, *server.pids(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_ends_though_its_tests_were_killed(kind: str) -> None:
    shared.need(kind, SERVERS[kind][1])
    done = run_preloaded(["-c", STARTED, kind], dict(os.environ), ROOT)
    folder, *pids = done.stdout.split()
    assert pids
    assert eventually(lambda: not any(is_alive(int(pid)) for pid in pids))
    subprocess.run(["rm", "-r", folder], check=True)


def is_alive(pid: int) -> bool:
    """A process that nobody has waited for yet is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second when it ends between opening and reading
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_starts_again_where_it_was_and_leaves_nothing(kind: str, how: str) -> None:
    make, missing = SERVERS[kind]
    shared.need(kind, missing)
    server = make()
    try:
        server.open()
        url, pids = server.url, server.pids()
        getattr(server, how)()
        assert eventually(lambda: not any(is_alive(pid) for pid in pids))
        server.start()
        assert server.url == url
        assert server.pid() not in pids
    finally:
        server.leave()
    assert not server.folder.exists()


def test_a_server_that_does_not_start_says_why() -> None:
    shared.need("redis", REDIS_MISSING)
    server = RedisServer({"appendfsync": "sometimes"})
    try:
        with pytest.raises(RuntimeError, match="sometimes"):
            server.open()
    finally:
        server.leave()


def test_what_is_missing_is_skipped_and_counted_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "not_run", Counter())
    monkeypatch.delenv(shared.NEED, raising=False)
    shared.need("redis", "")
    for _ in range(2):
        with pytest.raises(pytest.skip.Exception, match="no redis here"):
            shared.need("redis", "no redis here")
    assert shared.not_run == {"no redis here": 2}
    monkeypatch.setenv(shared.NEED, "redis,postgres")
    for name in ("redis", "postgres"):
        with pytest.raises(pytest.fail.Exception, match=f"no {name} here"):
            shared.need(name, f"no {name} here")
