"""Kill workers for a few seconds on two stores. `scripts/crash-workers` does it for two minutes on each."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.workers.stores import KINDS, SERVERS, server_of
from tests.servers.shared import need

ROOT = Path(__file__).resolve().parents[3]
STORES = ("sqlite", "redis")


def test_killed_workers_lose_nothing_and_keep_nobody_waiting() -> None:
    """With a wide limit: how long they wait is measured where nothing else runs."""
    need("redis", SERVERS["redis"][1])
    words = ["--seconds", "5", "--payers", "6", "--seed", "3", "--limit", "60", "--json"]
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.crash.workers", "--stores", store, *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        for store in STORES
    ]
    for run in runs:
        output, _ = run.communicate(timeout=300)
        [said] = json.loads(output)
        assert (run.returncode, {name: count for name, count in said["wrongs"].items() if count}) == (
            0,
            {},
        ), said
        assert said["kills"] > 0
        assert said["delivered"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_store_says_what_it_needs(kind: str) -> None:
    assert server_of(kind) in {"", *SERVERS}
    assert (server_of(kind) == "") == kind.endswith(("memory", "sqlite"))
