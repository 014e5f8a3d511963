"""Calls under way are bounded, and those that finish a payment never wait for others."""

import os
import random
import subprocess
import sys
import threading
import time
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from faregate import Paywall
from faregate.core.driver import drive
from faregate.core.flow import serve
from faregate.core.models import Response
from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator import transport as mount
from faregate.errors import NoAnswer, TooManyCalls
from faregate.merchant import wire
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.models import (
    ListQuery,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
    ResourceQuery,
    TransactionQuery,
)
from faregate.merchant.requests import Call, concerns_transaction
from faregate.transports.async_connections import AsyncioConnection, TrioConnection
from faregate.transports.http1 import Http1Transport
from faregate.transports.httpx import MAX_CALLS as MAX_MOUNTED_CALLS
from faregate.transports.httpx import HttpxTransport
from faregate.transports.limits import MAX_CALLS, CallLimiter, LimitedTransport, Limits
from tests.core.flow_script import sale

from .conftest import KEY, PRELUDE, SPEAKERS, Speaker, cancels_connects, crowd, get
from .samples import ACCESS, FAILED, REX, SUCCEEDED, TXN
from .services import Holding, eventually, ok, says, service

COMPLETE = f"/merchant/v1/transactions/{TXN}/complete"
LOOK = f"/merchant/v1/transactions/{TXN}"


def limited(speaker: Speaker, slots: int, places: int = 100) -> LimitedTransport:
    return LimitedTransport(Http1Transport(), slots, places, has_priority=concerns_transaction)


def all_limits(transport: LimitedTransport) -> list[Limits[Any]]:
    blocking = [limits for limits, _ in transport._limits._kept.values()]
    return [*blocking, *(limits for limits, _ in transport._async_limits._kept.values())]


def waiting(transport: LimitedTransport) -> int:
    """How many calls are in a queue."""
    limiters = [limiter for each in all_limits(transport) for limiter in (each._others, each._priority)]
    return sum(len(limiter._waiting) for limiter in limiters)


def test_no_more_calls_than_slots_are_under_way(speaker: Speaker) -> None:
    transport, replies = limited(speaker, 3), Holding()
    with service(replies) as merchant, crowd(speaker, merchant.url, transport) as submit:
        calls = [submit(get(f"/{number}")) for number in range(10)]
        eventually(lambda: replies.now == 3 and waiting(transport) == 7, "3 under way, 7 waiting")
        replies.let_go()
        assert [call.result(30).body.decode() for call in calls] == [f"/{number}" for number in range(10)]
    assert replies.most == 3


@pytest.mark.parametrize("kind", [MerchantClient, AsyncMerchantClient])
def test_a_client_gives_priority_to_what_finishes_a_payment(kind: Any) -> None:
    transport: Any = kind(KEY, "http://127.0.0.1:1")._transport
    limits = transport._limits._make() if kind is MerchantClient else transport._async_limits._make()
    complete, look, other = (limits.limiter(f"http://127.0.0.1:1{path}") for path in (COMPLETE, LOOK, "/x"))
    assert complete is look
    assert complete is not other


def test_one_more_than_may_wait_is_refused_at_once(speaker: Speaker) -> None:
    transport, replies = limited(speaker, 1, places=2), Holding()
    with service(replies) as merchant, crowd(speaker, merchant.url, transport) as submit:
        calls = [submit(get(f"/{number}")) for number in range(3)]
        eventually(lambda: replies.now == 1 and waiting(transport) == 2, "1 under way, 2 waiting")
        # Nothing was let go: the refusal waits for nobody.
        refusal = submit(get("/3")).exception(30)
        replies.let_go()
        assert [call.result(30).status for call in calls] == [200] * 3
    assert type(refusal) is TooManyCalls
    assert isinstance(refusal, NoAnswer)
    assert str(refusal) == "not sent: 1 calls to the service are under way, and 2 wait"
    assert sorted(seen.line.split()[1] for seen in merchant.requests) == ["/0", "/1", "/2"]


def test_calls_are_sent_in_the_order_in_which_they_came(speaker: Speaker) -> None:
    transport, replies = limited(speaker, 1), Holding()
    with service(replies) as merchant, crowd(speaker, merchant.url, transport) as submit:
        calls = [submit(get("/0"))]
        eventually(lambda: replies.now == 1, "1 under way")
        for number in range(1, 12):
            calls.append(submit(get(f"/{number}")))
            eventually(lambda number=number: waiting(transport) == number, "one more waits")  # type: ignore[misc]
        replies.let_go()
        for call in calls:
            call.result(30)
    assert [seen.line.split()[1] for seen in merchant.requests] == [f"/{number}" for number in range(12)]


@pytest.mark.parametrize(
    ("flood", "passing"),
    [("/merchant/v1/access", COMPLETE), ("/merchant/v1/access", LOOK), (COMPLETE, "/merchant/v1/access")],
)
def test_neither_kind_of_call_waits_for_the_other(speaker: Speaker, flood: str, passing: str) -> None:
    transport, replies = limited(speaker, 1, places=2), Holding(passing)
    with service(replies) as merchant, crowd(speaker, merchant.url, transport) as submit:
        calls = [submit(get(flood)) for _ in range(3)]
        eventually(lambda: replies.now == 1 and waiting(transport) == 2, "no place is left")
        assert type(submit(get(flood)).exception(30)) is TooManyCalls
        assert submit(get(passing)).result(30).body.decode() == passing
        replies.let_go()
        assert [call.result(30).status for call in calls] == [200] * 3


FINISHING = [
    wire.complete_transaction(TXN, SUCCEEDED, "cHJvb2Y="),
    wire.complete_transaction(TXN, FAILED, "cHJvb2Y="),
    wire.get_transaction(TXN),
]
CLOSING = ResourceExecutionCompleteRequest(
    revision_id=ACCESS.revision_id, resource_execution=ResourceExecutionMetadata(duration_ms=7)
)
OTHERS: list[Call[Any]] = [
    wire.access(ACCESS),
    wire.access(ACCESS, "cHJvb2Y="),
    wire.complete_resource_execution(REX, CLOSING),
    wire.list_transactions(TransactionQuery(page=2)),
    wire.list_payers(ListQuery()),
    wire.list_resources(ResourceQuery()),
    wire.list_contracts(),
]


@pytest.mark.parametrize("prefix", ["", "/svc"])
@pytest.mark.parametrize(
    "call", [*FINISHING, *OTHERS], ids=lambda call: call.request.path.partition("v1/")[2]
)
def test_the_calls_that_finish_a_payment(call: Call[Any], prefix: str) -> None:
    transport = LimitedTransport(Http1Transport(), 1, places=0, has_priority=concerns_transaction)
    # Strangers have what there is.
    transport._limits.get()._others.enter()
    plain: Call[Response] = Call(call.request, lambda reply: reply)
    with service(says(ok())) as merchant:
        client = MerchantClient(KEY, merchant.url + prefix, transport=transport)
        if call in FINISHING:
            assert client.send(plain).status == 200
        else:
            with pytest.raises(TooManyCalls):
                client.send(plain)
        client.close()


# Time


class Timed(Http1Transport):
    """Takes down how much time each call was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, float] = {}

    def send(self, method: str, url: str, headers: Any, body: bytes | None, seconds: float) -> Response:
        self.given[url[-1]] = seconds
        return super().send(method, url, headers, body, seconds)

    async def asend(
        self, method: str, url: str, headers: Any, body: bytes | None, seconds: float
    ) -> Response:
        self.given[url[-1]] = seconds
        return await super().asend(method, url, headers, body, seconds)


def test_the_time_in_the_queue_is_part_of_the_deadline(speaker: Speaker) -> None:
    inner, replies = Timed(), Holding()
    transport = LimitedTransport(inner, 1)
    with service(replies) as merchant, crowd(speaker, merchant.url, transport) as submit:
        first = submit(get("/1"))
        eventually(lambda: replies.now == 1, "1 under way")
        second = submit(get("/2"))
        eventually(lambda: waiting(transport) == 1, "1 waiting")
        since = time.monotonic()
        eventually(lambda: time.monotonic() - since > 0.2, "some time")
        replies.let_go()
        assert first.result(30).status == second.result(30).status == 200
    assert 40 < inner.given["1"] <= 50
    assert 0 < inner.given["2"] <= 49.8


def test_a_call_that_would_be_sent_too_late_is_not_sent(speaker: Speaker) -> None:
    """Half of its time in the queue, and it gives up: the service would get calls that nobody waits for."""
    transport, replies = limited(speaker, 1), Holding()
    with service(replies) as merchant, crowd(speaker, merchant.url, transport) as submit:
        first = submit(get("/1"))
        eventually(lambda: replies.now == 1, "1 under way")
        submit.set_timeout(6.0)
        began = time.monotonic()
        late = [submit(get("/2")) for _ in range(3)]
        errors = [call.exception(30) for call in late]
        took = time.monotonic() - began
        replies.let_go()
        assert first.result(30).status == 200
    assert [type(error) for error in errors] == [TooManyCalls] * 3
    assert str(errors[0]).endswith("under way, and this one has waited too long")
    assert 3.0 <= took < 5.8
    assert waiting(transport) == 0
    assert [seen.line.split()[1] for seen in merchant.requests] == ["/1"]


# Slots are not lost


def test_a_slot_comes_back_from_a_call_that_failed(speaker: Speaker) -> None:
    transport = limited(speaker, 1, places=0)
    with crowd(speaker, "http://127.0.0.1:9", transport) as submit:
        for _ in range(3):
            assert type(submit(get()).exception(30)) is NoAnswer


def test_a_slot_handed_to_a_call_that_gave_up_goes_to_the_next() -> None:
    limiter = CallLimiter(1, 2, threading.Event)
    assert limiter.enter() is None
    first, second = limiter.enter(), limiter.enter()
    assert first is not None
    assert second is not None
    with pytest.raises(TooManyCalls):
        limiter.enter()
    limiter.leave()
    assert first.is_set()
    limiter.withdraw(first)
    assert second.is_set()
    limiter.leave()
    assert limiter.enter() is None


def test_a_call_that_gave_up_leaves_its_place() -> None:
    limiter = CallLimiter(1, 1, threading.Event)
    limiter.enter()
    first = limiter.enter()
    assert first is not None
    limiter.withdraw(first)
    second = limiter.enter()
    assert second is not None
    limiter.leave()
    assert (first.is_set(), second.is_set()) == (False, True)


ASYNC = [speaker for speaker in SPEAKERS if speaker.backend is not None]


@cancels_connects
@pytest.mark.parametrize("speaker", ASYNC, ids=repr)
def test_no_slot_is_lost_to_cancellation(speaker: Speaker) -> None:
    """Calls cancelled wherever they are: in the queue, when they are handed a slot, under way."""
    transport, chance = limited(speaker, 3, places=1000), random.Random(7)

    async def call_for_a_while(client: AsyncMerchantClient, turns: int) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.send, get())
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

    async def go(url: str) -> None:
        async with AsyncMerchantClient(KEY, url, transport=transport, timeout=20) as client:
            for _ in range(10):
                async with anyio.create_task_group() as tasks:
                    for _ in range(12):
                        tasks.start_soon(call_for_a_while, client, chance.randrange(60))
                assert waiting(transport) == 0
                [limits] = all_limits(transport)
                assert limits._others._free == 3
            assert (await client.send(get())).status == 200

    with service(says(ok())) as merchant:
        anyio.run(go, merchant.url, backend=speaker.backend or "asyncio")


FORK = """
from faregate.transports.limits import LimitedTransport
from faregate.transports.http1 import Http1Transport
transport = LimitedTransport(Http1Transport(), 1, 0)
client = MerchantClient("svc_test_forked", url, transport=transport)
assert client.send(get("/before")) == "/before"
transport._limits.get()._others.enter()
transport._limits.get()._others._lock.acquire()
child = os.fork()
if not child:
    os._exit(0 if client.send(get("/child")) == "/child" else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_slots_of_its_own() -> None:
    """Also when the fork happened while all were taken, and in the middle of taking one."""
    with service(Holding("/before", "/child")) as merchant:
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + FORK, merchant.url],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.stdout.split() == ["0"], done.stderr


# What comes of it for everybody


def test_every_client_is_limited(speaker: Speaker) -> None:
    """The numbers of the documentation, for a client that was told of none."""
    replies = Holding()
    with service(replies) as merchant, crowd(speaker, merchant.url) as submit:
        # One thread for each blocking call: enough to be one too many.
        number = MAX_CALLS + 20 if speaker.backend is None else 3 * MAX_CALLS
        calls = [submit(get()) for _ in range(number)]
        eventually(lambda: replies.now == MAX_CALLS, "all slots are taken")
        replies.let_go()
        assert [call.result(60).status for call in calls] == [200] * number
    assert replies.most == MAX_CALLS


def test_a_mounted_transport_is_limited() -> None:
    now, most = 0, 0

    async def handle(request: httpx.Request) -> httpx.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.sleep(0.01)
        now -= 1
        return httpx.Response(200)

    async def go() -> None:
        client = AsyncMerchantClient(KEY, "http://a", transport=httpx.MockTransport(handle))
        async with anyio.create_task_group() as tasks:
            for _ in range(3 * MAX_MOUNTED_CALLS):
                tasks.start_soon(client.send, get())

    anyio.run(go)
    assert most == MAX_MOUNTED_CALLS


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_flood_does_not_hold_the_event_loop(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in looks at idle connections, one for each call at most; and in processor time."""
    looks, longest = 0, 0.0
    kind = AsyncioConnection if backend == "asyncio" else TrioConnection
    is_stale = kind.is_stale

    def counted(self: Any) -> bool:
        nonlocal looks
        looks += 1
        return is_stale(self)

    monkeypatch.setattr(kind, "is_stale", counted)
    replies, number = Holding("/warm"), 700

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.thread_time()
            await anyio.sleep(0.001)
            longest = max(longest, time.thread_time() - began)

    async def go(url: str) -> None:
        async with AsyncMerchantClient(KEY, url, timeout=50) as client:
            await client.send(get("/warm"))
            async with anyio.create_task_group() as watching:
                watching.start_soon(watch)
                async with anyio.create_task_group() as tasks:
                    for _ in range(number):
                        tasks.start_soon(client.send, get())
                    while replies.now < 100:
                        await anyio.sleep(0.01)
                    replies.let_go()
                watching.cancel_scope.cancel()

    with service(replies) as merchant:
        anyio.run(go, merchant.url, backend=backend)
    assert len(merchant.requests) == number + 1
    assert looks <= number + 1
    assert longest < 1.0


def test_a_payer_learns_when_to_come_back() -> None:
    emulator = Emulator()
    transport = LimitedTransport(HttpxTransport(mount(emulator)), 1, places=0)
    paywall = Paywall(base_url="http://emulator.invalid", api_key=TEST_KEY, transport=transport, environ={})

    def ask() -> Any:
        return drive(serve(paywall.backend, sale(None)))

    assert ask().status == 402
    transport._limits.get()._others.enter()
    calls = len(emulator.calls())
    end = ask()
    assert end.status == 503
    assert end.first("retry-after") is not None
    assert len(emulator.calls()) == calls
