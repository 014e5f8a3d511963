"""What is Redis's own: which servers are trusted, what is in them, and what can go wrong with them."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest

from faregate.core.claim_types import Claimed, InProgress, Replayable
from faregate.errors import ConfigurationError, JournalError, JournalUnreadable
from faregate.journals.redis import RedisJournal
from faregate.journals.redis.schema import VERSION
from faregate.journals.redis.store import RedisStore
from tests.core.flow_script import ACR, OTHER_TXN, RECEIPT, TXN
from tests.journals.canaries import find_leaks, write_canaries
from tests.journals.redis_journal import ask, opened, running
from tests.journals.rows import GOOD, HERE, WORK_SECONDS, fresh, released, started
from tests.journals.stores import KEY
from tests.servers import RedisServer
from tests.support.threads import run_in_threads
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "pass:word@/canary"
QUOTED = "pass%3Aword%40%2Fcanary"


@pytest.fixture
def server() -> Generator[RedisServer]:
    with running() as made:
        yield made


@pytest.fixture
def journal(server: RedisServer) -> Generator[RedisJournal]:
    with opened(server) as made:
        yield made


def said_of(server: RedisServer, command: str) -> str:
    lines: list[str] = ask(server, "INFO", "commandstats").decode().splitlines()
    return next(line for line in lines if line.startswith(f"cmdstat_{command}:"))


def clients(server: RedisServer) -> int:
    return len(ask(server, "CLIENT", "LIST").splitlines()) - 1


# Which servers are trusted


def test_nothing_is_opened_before_it_is_needed(server: RedisServer, journal: RedisJournal) -> None:
    assert clients(server) == 0
    assert journal.lease_next() is None
    assert clients(server) == 1


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"])
def test_a_server_that_may_evict_rows_is_refused(policy: str) -> None:
    with running(maxmemory_policy=policy) as server, opened(server) as journal:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=f"{policy}.*Set maxmemory-policy noeviction"):
                journal.claim("proof", HERE)
        assert ask(server, "DBSIZE") == 0
        ask(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
        fresh(journal.claim("proof", HERE))


NO_CONFIG = {"rename-command": "CONFIG hidden"}
WEAK: list[tuple[dict[str, str], list[str]]] = [
    ({}, []),
    ({"appendfsync": "everysec"}, ["appendfsync is everysec, so a power cut loses about the last second"]),
    ({"appendfsync": "no"}, ["appendfsync is no, so a power cut loses some of the last minute"]),
    ({"appendonly": "no"}, ["appendonly is off, so a stop loses what came after the last snapshot"]),
    (NO_CONFIG, ["what a power cut loses could not be checked"]),
    ({**NO_CONFIG, "appendonly": "no"}, ["appendonly is off"]),
]


@pytest.mark.parametrize(("settings", "says"), WEAK)
def test_weak_persistence_is_warned_of_once(
    settings: dict[str, str], says: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with running(**settings) as server, opened(server) as journal:
        for number in range(2):
            fresh(journal.claim(f"proof {number}", HERE))
            journal.disconnect()
    # A thread of an earlier test may still warn of a journal of its own.
    records = [record for record in caplog.records if "the journal at redis" in record.getMessage()]
    assert [record.levelno for record in records] == [logging.WARNING] * len(says)
    for record, part in zip(records, says, strict=True):
        assert part in record.getMessage()
        assert "appendonly yes and appendfsync always" in record.getMessage()


def test_an_eviction_policy_is_found_though_config_is_forbidden() -> None:
    with (
        running(maxmemory_policy="allkeys-lfu", **NO_CONFIG) as server,
        opened(server) as journal,
        pytest.raises(ConfigurationError, match="allkeys-lfu"),
    ):
        journal.claim("proof", HERE)


def test_a_user_with_the_least_rights_suffices(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    rights = ["~faregate:*", "resetchannels", "-@all", "+@read", "+@write", "+@scripting", "+time"]
    ask(server, "ACL", "SETUSER", "seller", "on", f">{PASSWORD}", *rights)
    url = f"redis://seller:{QUOTED}@127.0.0.1:{server.port}/0"
    with opened(server, url) as journal:
        released(journal)
        assert isinstance(journal.claim("proof", HERE), Replayable)
    said = caplog.text
    assert "must have maxmemory-policy noeviction" in said
    assert "what a power cut loses could not be checked" in said
    ask(server, "ACL", "SETUSER", "seller", "-@scripting")
    with (
        opened(server, url) as journal,
        pytest.raises(JournalError, match=r"allow @read, @write, @scripting"),
    ):
        journal.claim("proof", HERE)


# What can go wrong


def test_a_wrong_password_is_reported_and_not_shown() -> None:
    with running(requirepass="another") as server:
        ask(server, "CONFIG", "RESETSTAT")
        for tries, user in enumerate(("", f":{QUOTED}", f"seller:{QUOTED}")):
            url = f"redis://{user}@127.0.0.1:{server.port}/0"
            with opened(server, url) as journal, pytest.raises(JournalError, match="password") as caught:
                journal.claim("proof", HERE)
            chain = [caught.value, caught.value.__cause__, caught.value.__context__]
            assert "canary" not in repr([(error, str(error)) for error in chain])
            assert f"redis://127.0.0.1:{server.port}/0" in str(caught.value)
            # Once each: many servers shut out who tries often.
            assert tries == 0 or f"failed_calls={tries}" in said_of(server, "auth")


@pytest.mark.parametrize(
    "url",
    ["redis://seller:canary/pass@host:6379/0", "canary", "redis://host:canary", "redis://host?db=canary"],
)
def test_an_invalid_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="redis://USER:PASSWORD@HOST") as caught:
        RedisJournal(url, keys=[KEY])
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "canary" not in str(caught.value)


def test_a_server_that_is_not_there_is_an_error(server: RedisServer, journal: RedisJournal) -> None:
    lease = started(journal)
    server.stop()
    with pytest.raises(JournalError, match=f"redis://127.0.0.1:{server.port}/0 could not be read or written"):
        journal.record_outcome(lease, GOOD)
    server.start()
    assert journal.record_outcome(lease, GOOD)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_rows_survive_a_restart_of_the_server(server: RedisServer, journal: RedisJournal, how: str) -> None:
    """Whoever was connected goes on with the next call, and so do its scripts, which the server forgot."""
    lease = started(journal)
    for _ in range(2):
        getattr(server, how)()
        server.start()
        assert journal.claim("proof", HERE) == InProgress()
    getattr(server, how)()
    server.start()
    assert journal.record_outcome(lease, GOOD)


def test_a_server_that_hangs_costs_no_more_than_the_timeout(server: RedisServer) -> None:
    with opened(server, timeout=0.4) as journal:
        lease = started(journal)
        os.kill(server.pid(), signal.SIGSTOP)
        try:
            before = time.monotonic()
            with pytest.raises(JournalError, match="did not answer in time"):
                journal.record_outcome(lease, GOOD)
            assert 0.39 < time.monotonic() - before < PATIENCE
        finally:
            os.kill(server.pid(), signal.SIGCONT)
        # What was given up may have been done; it is never done twice, nor undone.
        journal.record_outcome(lease, GOOD)
        journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
        assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)


def test_a_replica_is_refused_writes_and_says_so(server: RedisServer, journal: RedisJournal) -> None:
    lease = started(journal)
    ask(server, "REPLICAOF", "127.0.0.1", server.port)
    ask(server, "CONFIG", "SET", "replica-serve-stale-data", "yes")
    with pytest.raises(JournalError, match="is a replica, which takes no writes: name the primary"):
        journal.record_outcome(lease, GOOD)
    ask(server, "REPLICAOF", "NO", "ONE")
    assert journal.record_outcome(lease, GOOD)


def test_a_full_memory_refuses_new_rows_and_lets_old_ones_end(
    server: RedisServer, journal: RedisJournal
) -> None:
    lease = started(journal)
    waiting = started(journal, "another", OTHER_TXN)
    early = fresh(journal.claim("early", HERE))
    ask(server, "CONFIG", "SET", "maxmemory", 1)
    for refused in (
        lambda: journal.claim("new", HERE),
        lambda: journal.record_transaction(early, "txn_early", ACR, WORK_SECONDS),
        lambda: journal.record_outcome(lease, GOOD),
    ):
        with pytest.raises(JournalError, match=r"its memory is full: give it more \(maxmemory\)"):
            refused()
    ask(server, "CONFIG", "SET", "maxmemory", 0)
    assert journal.record_outcome(lease, GOOD)
    assert journal.record_outcome(waiting, GOOD)
    ask(server, "CONFIG", "SET", "maxmemory", 1)
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    journal.record_final(waiting, False)
    assert journal.list_holds(10) == []


def test_an_emptied_journal_is_not_created_again(server: RedisServer, journal: RedisJournal) -> None:
    released(journal)
    ask(server, "FLUSHALL")
    for _ in range(2):
        with pytest.raises(JournalUnreadable, match="was emptied or replaced while it was in use"):
            journal.claim("proof", HERE)
    assert ask(server, "DBSIZE") == 0
    with opened(server) as other:  # somebody who begins now
        fresh(other.claim("another", HERE))
    with pytest.raises(JournalUnreadable, match="replaced"):
        journal.claim("proof", HERE)
    journal.disconnect()
    fresh(journal.claim("proof", HERE))


def test_a_newer_version_is_refused_and_left_alone(server: RedisServer, journal: RedisJournal) -> None:
    lease = started(journal)
    [schema] = ask(server, "KEYS", "*schema")
    mark = ask(server, "GET", schema).decode()
    ask(server, "SET", schema, f"{VERSION + 1}{mark[1:]}")
    for _ in range(2):  # in use, and opened anew
        with pytest.raises(JournalUnreadable, match=rf"of version {VERSION + 1}, .*use the newer faregate"):
            journal.record_outcome(lease, GOOD)
        journal.disconnect()
    assert ask(server, "GET", schema).decode() == f"{VERSION + 1}{mark[1:]}"
    ask(server, "SET", schema, mark)
    assert journal.record_outcome(lease, GOOD)


def test_an_unreadable_row_is_reported(server: RedisServer, journal: RedisJournal) -> None:
    started(journal)
    [row] = ask(server, "KEYS", "*row:*")
    for change in (("HSET", row, "fence", "many"), ("HDEL", row, "fence")):
        ask(server, *change)
        with pytest.raises(JournalUnreadable, match="another version of faregate"):
            journal.claim("proof", HERE)


# What is in it


def test_nothing_of_a_payment_can_be_read_from_its_files(server: RedisServer, journal: RedisJournal) -> None:
    seen = write_canaries(journal, partial(look, server))
    assert b"test" in seen
    assert find_leaks(seen) == []


def look(server: RedisServer) -> bytes:
    """What a backup would have: the log of commands, and a snapshot that is not compressed."""
    ask(server, "CONFIG", "SET", "rdbcompression", "no")
    ask(server, "SAVE")
    files = [
        path
        for path in sorted(server.folder.rglob("*"))
        if path.is_file() and path.name not in ("log", "pid")
    ]
    assert len(files) >= 3
    return b"".join(path.read_bytes() for path in files)


def test_it_uses_the_servers_time(server: RedisServer) -> None:
    with opened(server, clock=None) as journal:
        before = float(ask(server, "TIME")[0])
        lease = started(journal)
        record = journal._store.find([lease.key])
        assert record is not None
        assert before <= record["since"] <= float(ask(server, "TIME")[0]) + 1


# Threads and forks


def test_many_threads_share_one_connection(server: RedisServer) -> None:
    with opened(server) as journal:
        barrier = threading.Barrier(40)
        won: list[int] = []

        def claim() -> None:
            barrier.wait()
            for number in range(10):
                if isinstance(journal.claim(f"proof {number}", HERE), Claimed):
                    won.append(number)

        run_in_threads(*[claim] * 40)
        assert sorted(won) == list(range(10))
        assert clients(server) == 1
    assert clients(server) == 0


FORKED = """
import json, os, sys, threading
from faregate.journals.redis import RedisJournal
from faregate.core.claim_types import Claimant, InProgress
journal = RedisJournal(sys.argv[1], keys=[b"k" * 32], namespace="test")
proofs = ("before", "child", "parent", "later")
journal.claim("before", Claimant("GET /"))
stop = threading.Event()
def go_on():
    while not stop.is_set():
        journal.claim("before", Claimant("GET /"))
threads = [threading.Thread(target=go_on) for _ in range(4)]
for thread in threads: thread.start()
children = []
for number in range(8):
    if (child := os.fork()) == 0:
        right = [isinstance(journal.claim("before", Claimant("GET /")), InProgress) for _ in range(20)]
        journal.claim(f"child {number}", Claimant("GET /"))
        journal.disconnect()
        os._exit(0 if all(right) else 1)
    children.append(child)
statuses = [os.waitpid(child, 0)[1] for child in children]
stop.set()
for thread in threads: thread.join()
answers = [isinstance(journal.claim(f"child {n}", Claimant("GET /")), InProgress) for n in range(8)]
print(json.dumps([statuses, answers]))
"""


def test_a_journal_in_use_can_be_forked(server: RedisServer) -> None:
    """Children and parent have connections of their own: none reads another's answers."""
    command = [sys.executable, "-c", FORKED, server.url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[0] * 8, [True] * 8]


def test_an_interrupted_call_leaves_no_reply_for_the_next(
    server: RedisServer, journal: RedisJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(journal)
    assert isinstance(journal._store, RedisStore)
    connections = journal._store._client._connections
    [connection] = connections._idle.values()
    monkeypatch.setattr(connection, "read_response", interrupted)
    with pytest.raises(KeyboardInterrupt):
        connections.call("BLPOP", "nothing", 0)  # its answer is still to come
    monkeypatch.undo()
    assert connections.call("ECHO", "mine") == b"mine"


def interrupted() -> None:
    raise KeyboardInterrupt
