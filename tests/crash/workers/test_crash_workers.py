"""Kill workers for a few seconds on two stores. `scripts/crash-workers` does it for two minutes on each."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crash.stores import SERVERS, missing, server_of
from tests.crash.workers.__main__ import KINDS
from tests.servers.shared import need
from tests.support.campaigns import run_campaign


def test_killed_workers_lose_nothing_and_keep_nobody_waiting() -> None:
    """With a wide limit: how long they wait is measured where nothing else runs."""
    need("redis", missing("redis"))
    words = ["--seconds", "5", "--payers", "6", "--seed", "3", "--limit", "60"]
    kinds = (("sqlite", "--every", "0.7", "--faults"), ("redis",))
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda kind: run_campaign("tests.crash.workers", "--stores", *kind, *words), kinds)
    for status, [said] in runs:
        assert (status, {name: count for name, count in said["wrongs"].items() if count}) == (0, {}), said
        assert said["kills"] > 0
        assert said["delivered"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_store_says_what_it_needs(kind: str) -> None:
    assert server_of(kind) in {"", *SERVERS}
    assert (server_of(kind) == "") == kind.endswith(("memory", "sqlite"))
