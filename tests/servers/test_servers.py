"""The stores of the tests: they keep what they were told, end with their tests, and are not skipped in CI."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.servers import (
    MARIADB_MISSING,
    POSTGRES_MISSING,
    REDIS_MISSING,
    MariadbHouse,
    PostgresHouse,
    RedisHouse,
    shared,
)
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
HOUSES = {
    "redis": (RedisHouse, REDIS_MISSING),
    "postgres": (PostgresHouse, POSTGRES_MISSING),
    "mariadb": (MariadbHouse, MARIADB_MISSING),
}
STARTED = """
import os, signal, sys
from tests.servers import MariadbHouse, PostgresHouse, RedisHouse
house = {"redis": RedisHouse, "postgres": PostgresHouse, "mariadb": MariadbHouse}[sys.argv[1]]()
house.open()
print(house.folder, *house.pids(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", HOUSES)
def test_a_server_ends_though_its_tests_were_killed(kind: str) -> None:
    shared.need(kind, HOUSES[kind][1])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", STARTED, kind]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60)
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
@pytest.mark.parametrize("kind", HOUSES)
def test_a_server_starts_again_where_it_was_and_leaves_nothing(kind: str, how: str) -> None:
    make, missing = HOUSES[kind]
    shared.need(kind, missing)
    house = make()
    try:
        house.open()
        url, pids = house.url, house.pids()
        getattr(house, how)()
        assert eventually(lambda: not any(is_alive(pid) for pid in pids))
        house.start()
        assert house.url == url
        assert house.pid() not in pids
    finally:
        house.leave()
    assert not house.folder.exists()


def test_a_server_that_does_not_start_says_why() -> None:
    shared.need("redis", REDIS_MISSING)
    house = RedisHouse({"appendfsync": "sometimes"})
    try:
        with pytest.raises(RuntimeError, match="sometimes"):
            house.open()
    finally:
        house.leave()


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
