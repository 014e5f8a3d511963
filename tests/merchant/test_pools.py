"""Connections: made lazily, used again, one pool per process and event loop, left behind by nobody."""

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.transports import base, http1
from faregate.transports.connections import CHUNK
from faregate.transports.pools import PerLoop, PerProcess

from .conftest import KEY, PRELUDE, Speaker, crowd, get
from .services import Holding, Seen, eventually, ok, says, service


def echo(connection: socket.socket, seen: Seen) -> None:
    """The path, after a moment in which others could get in between."""
    time.sleep(0.002)
    connection.sendall(ok(body=seen.line.split()[1].encode()))


def test_nothing_is_opened_before_the_first_call(speaker: Speaker) -> None:
    with service(says(ok())) as merchant:
        speaker.speak(merchant.url)
    assert merchant.connections == 0


def test_a_connection_is_used_again(speaker: Speaker) -> None:
    with service(says(ok())) as merchant:
        replies = speaker.speak(merchant.url, *[get()] * 5)
    assert [reply.status for reply in replies] == [200] * 5
    assert merchant.connections == 1


def test_a_second_answer_is_never_that_of_the_next_call(speaker: Speaker) -> None:
    """Whoever gets two for one call forgets the second, and the connection it came on."""

    def twice(connection: socket.socket, seen: Seen) -> None:
        connection.sendall(ok(body=seen.line.split()[1].encode()) + ok(body=b"/nobody-asked"))

    with service(twice) as merchant:
        replies = speaker.speak(merchant.url, get("/1"), get("/2"), get("/3"))
    assert [reply.body for reply in replies] == [b"/1", b"/2", b"/3"]


def test_a_second_answer_may_begin_where_a_read_of_the_socket_ends(speaker: Speaker) -> None:
    """asyncio reads more at once than it is asked for, and keeps the rest where `poll` does not see it."""

    def twice(connection: socket.socket, seen: Seen) -> None:
        path = seen.line.split()[1].encode()
        body = path.ljust(CHUNK - len(ok(body=bytes(10_000))) + 10_000)
        assert len(ok(body=body)) == CHUNK
        connection.sendall(ok(body=body) + ok(body=b"/nobody-asked"))

    with service(twice) as merchant:
        replies = speaker.speak(merchant.url, get("/1"), get("/2"), get("/3"))
    assert [reply.body.strip() for reply in replies] == [b"/1", b"/2", b"/3"]


def test_a_closed_client_opens_new_connections() -> None:
    with service(says(ok())) as merchant, MerchantClient(KEY, merchant.url) as client:
        client.send(get())
        client.close()
        assert client.send(get()).status == 200
    assert merchant.connections == 2


def test_an_idle_connection_is_not_trusted_for_long(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert base.KEEP_ALIVE_SECONDS < 5, "uvicorn closes after 5 s"
    monkeypatch.setattr(http1, "KEEP_ALIVE_SECONDS", 0.0)
    with service(says(ok())) as merchant:
        speaker.speak(merchant.url, get(), get(), get())
    assert merchant.connections == 3


def test_connections_that_a_burst_opened_are_closed(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "KEEP_ALIVE_SECONDS", 0.3)
    burst = Holding("/last")
    with service(burst) as merchant, crowd(speaker, merchant.url) as submit:
        calls = [submit(get()) for _ in range(20)]
        eventually(lambda: burst.now == 20, "20 calls under way")
        burst.let_go()
        for call in calls:
            call.result(30)
        eventually(
            lambda: submit(get("/last")).result(30).status == 200 and merchant.open == 1, "one is left"
        )


def test_a_call_under_way_outlives_the_end_of_its_client(speaker: Speaker) -> None:
    """It is answered, and its connection is closed then."""
    replies = Holding()
    with service(replies) as merchant, crowd(speaker, merchant.url) as submit:
        call = submit(get("/1"))
        eventually(lambda: replies.now == 1, "a call under way")
        submit.close()
        replies.let_go()
        assert call.result(30).status == 200
        eventually(lambda: merchant.open == 0, "its connection is closed")


def test_threads_share_one_blocking_client() -> None:
    with service(echo) as merchant, MerchantClient(KEY, merchant.url) as client:
        paths = [f"/{number}" for number in range(120)]
        with ThreadPoolExecutor(12) as threads:
            bodies = list(threads.map(lambda path: client.send(get(path)).body.decode(), paths))
    assert bodies == paths
    assert merchant.connections <= 12


def test_tasks_share_one_client_and_loops_do_not_mix() -> None:
    with service(echo) as merchant:
        client = AsyncMerchantClient(KEY, merchant.url)

        async def many(start: int) -> list[str]:
            paths = [f"/{number}" for number in range(start, start + 20)]
            replies = await asyncio.gather(*[client.send(get(path)) for path in paths])
            return [reply.body.decode() for reply in replies]

        with ThreadPoolExecutor(4) as threads:
            for start, bodies in enumerate(threads.map(lambda start: asyncio.run(many(start)), range(8))):
                assert bodies == [f"/{number}" for number in range(start, start + 20)]


def test_one_pool_per_event_loop_and_none_after_it() -> None:
    with service(says(ok())) as merchant:
        client = AsyncMerchantClient(KEY, merchant.url)

        async def twice() -> None:
            await client.send(get())
            await client.send(get())

        for _ in range(3):
            asyncio.run(twice())
        assert merchant.connections == 3
        transports = (client._transport, vars(client._transport)["_inner"])
        pools = [each for one in transports for each in vars(one).values() if isinstance(each, PerLoop)]
        assert [each._kept for each in pools] == [{}, {}]


# What only a process of its own can show


def script(body: str, url: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *flags, "-c", PRELUDE + body, url],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


UNCLOSED = """
for _ in range(3):
    assert blocking.send(get("/b")) == "/b"
    assert asyncio.run(awaiting.send(get("/a"))) == "/a"
    assert anyio.run(awaiting.send, get("/t"), backend="trio") == "/t"
    MerchantClient("svc_test_dropped", url).send(get("/c"))
    async def dropped():
        await AsyncMerchantClient("svc_test_dropped", url).send(get("/d"))
        gc.collect()
        await asyncio.sleep(0.01)
    asyncio.run(dropped())
    gc.collect()
"""


def test_a_client_nobody_closes_warns_of_nothing() -> None:
    with service(echo) as merchant:
        done = script(UNCLOSED, merchant.url, "-W", "error")
    assert (done.returncode, done.stderr) == (0, "")


THREADS = """
def count():
    return len(os.listdir("/proc/self/task"))
blocking.send(get())
asyncio.run(awaiting.send(get()))
before = count()
for _ in range(20):
    MerchantClient("svc_test_more", url).send(get())
    asyncio.run(AsyncMerchantClient("svc_test_more", url).send(get()))
gc.collect()
print(count(), threading.active_count(), before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads by /proc")
def test_clients_leave_no_threads_behind() -> None:
    with service(echo) as merchant:
        done = script(THREADS, merchant.url)
    assert done.stdout.split() == ["1"] * 3, done.stderr


FORK = """
import ctypes
used_before = sys.argv[2] == "used"
if used_before:
    assert blocking.send(get("/before")) == "/before"
    assert asyncio.run(awaiting.send(get("/before"))) == "/before"
sys.setswitchinterval(10)  # else a child of a fork in C may wait for a thread that wanted the interpreter
# As uWSGI does: without the functions of os.register_at_fork.
fork = os.fork if sys.argv[3] == "os" else ctypes.PyDLL(None).fork
child = fork()
who = "parent" if child else "child"
try:
    for number in range(40):
        assert blocking.send(get(f"/{who}/b/{number}")) == f"/{who}/b/{number}"
    async def many():
        paths = [f"/{who}/a/{number}" for number in range(20)]
        assert await asyncio.gather(*[awaiting.send(get(path)) for path in paths]) == paths
    asyncio.run(many())
    failed = None
except Exception as error:
    failed = type(error).__name__
if child:
    _, status = os.waitpid(child, 0)
    print(failed, os.waitstatus_to_exitcode(status), flush=True)
else:
    sys.exit(0 if failed is None else 4)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("fork", ["os", "C"])
@pytest.mark.parametrize("before", ["used", "unused"])
def test_answers_never_cross_after_a_fork(before: str, fork: str) -> None:
    with service(echo) as merchant:
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + FORK, merchant.url, before, fork],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.stdout.split() == ["None", "0"], done.stderr
    # No connection carries requests of both.
    by_connection: dict[int, set[str]] = {}
    for seen in merchant.requests:
        by_connection.setdefault(seen.connection, set()).add(seen.line.split()[1].split("/")[1])
    assert not [owners for owners in by_connection.values() if {"parent", "child"} <= owners]


def test_a_pool_is_made_once_and_closed_once() -> None:
    closed: list[object] = []
    pools = PerProcess(object, closed.append)
    assert pools.get() is pools.get()
    first = pools.get()
    pools.close()
    pools.close()
    second = pools.get()
    assert second is not first
    assert closed == [first]
    del pools
    gc.collect()
    assert closed == [first, second]


def test_of_two_pools_made_at_once_one_is_closed() -> None:
    closed: list[object] = []
    at_once = threading.Barrier(2)

    def make() -> object:
        at_once.wait(5)
        return object()

    pools = PerProcess(make, closed.append)
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(lambda _: pools.get(), range(2))
    assert one is other
    assert len(closed) == 1
    assert closed[0] is not one
