"""A call that is cancelled: whoever cancelled it gets the cancellation back, and nobody else does."""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from faregate.merchant.client import AsyncMerchantClient
from faregate.transports import async_connections

from .conftest import KEY, SPEAKERS, Speaker, cancels_connects, get
from .services import Seen, Service, eventually, ok, says, service

ASYNC_SPEAKERS = [speaker for speaker in SPEAKERS if speaker.backend is not None]
HALF = ok(body=b"x" * 50)[:-20]


@pytest.fixture(params=ASYNC_SPEAKERS, ids=repr)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    found: Speaker = request.param
    return found


@pytest.fixture(params=[b"", HALF], ids=["no reply", "half a reply"])
def merchant(request: pytest.FixtureRequest) -> Generator[Service]:
    """A service that begins its reply, or not even that, and leaves it at that."""
    with stalling(request.param) as found:
        yield found


@contextmanager
def stalling(at_once: bytes) -> Generator[Service]:
    over = threading.Event()

    def answer(connection: socket.socket, _seen: Seen) -> None:
        connection.sendall(at_once)
        over.wait(60)

    with service(answer) as found:
        try:
            yield found
        finally:
            over.set()


def run(speaker: Speaker, merchant: Service, body: Callable[[AsyncMerchantClient], Awaitable[Any]]) -> Any:
    """What `body` gives for a client. On asyncio, no cancellation of the task is left over."""

    async def go() -> Any:
        async with AsyncMerchantClient(KEY, merchant.url, timeout=50) as client:
            with anyio.fail_after(30):
                result = await body(client)
        if speaker.backend == "asyncio":
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
        return result

    return anyio.run(go, backend=speaker.backend or "asyncio")


async def arrival(merchant: Service) -> None:
    while not merchant.requests:
        await anyio.sleep(0.001)
    await anyio.lowlevel.checkpoint()


async def expire(merchant: Service, scope: anyio.CancelScope) -> None:
    """The scope's deadline passes once the request is under way."""
    await arrival(merchant)
    scope.deadline = anyio.current_time()


def test_move_on_after(speaker: Speaker, merchant: Service) -> None:
    async def body(client: AsyncMerchantClient) -> bool:
        async with anyio.create_task_group() as tasks:
            with anyio.move_on_after(20) as scope:
                tasks.start_soon(expire, merchant, scope)
                await client.send(get())
            assert not tasks.cancel_scope.cancel_called
            return scope.cancelled_caught
        raise AssertionError

    assert run(speaker, merchant, body) is True


def test_fail_after(speaker: Speaker, merchant: Service) -> None:
    async def body(client: AsyncMerchantClient) -> str:
        async with anyio.create_task_group() as tasks:
            try:
                with anyio.fail_after(20) as scope:
                    tasks.start_soon(expire, merchant, scope)
                    await client.send(get())
            except TimeoutError:
                return "too late"
        return "answered"

    assert run(speaker, merchant, body) == "too late"


def test_an_outer_scope_is_not_mistaken_for_an_inner_one(speaker: Speaker, merchant: Service) -> None:
    async def body(client: AsyncMerchantClient) -> list[bool]:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as outer:
                tasks.start_soon(expire, merchant, outer)
                with anyio.CancelScope() as inner:
                    await client.send(get())
                raise AssertionError("the inner scope took what was meant for the outer one")
            return [outer.cancelled_caught, inner.cancelled_caught]
        raise AssertionError

    assert run(speaker, merchant, body) == [True, False]


def test_a_task_group(speaker: Speaker, merchant: Service) -> None:
    async def body(client: AsyncMerchantClient) -> str:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(client.send, get())
            await arrival(merchant)
            tasks.cancel_scope.cancel()
        return "left"

    assert run(speaker, merchant, body) == "left"


def test_a_shielded_call_is_answered(speaker: Speaker) -> None:
    async def body(client: AsyncMerchantClient) -> int:
        with anyio.CancelScope() as outer:
            outer.cancel()
            with anyio.CancelScope(shield=True):
                status: int = (await client.send(get())).status
        return status

    with service(says(ok())) as merchant:
        assert run(speaker, merchant, body) == 200


@cancels_connects
def test_a_call_cancelled_at_any_step_leaves_the_client_usable(speaker: Speaker) -> None:
    """A connection that was cancelled between two states must not be met by the next call."""

    async def body(client: AsyncMerchantClient) -> list[int]:
        statuses = []
        for turns in range(80):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.send, get())
                for _ in range(turns % 40):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            statuses.append((await client.send(get())).status)
            if turns % 2:
                # With a connection that is open already, and without one.
                await client.aclose()
        return statuses

    with service(says(ok())) as merchant:
        assert run(speaker, merchant, body) == [200] * 80


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_cancelled_right_after_it_connected_leaves_nothing(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = async_connections.open_async
    scopes: list[anyio.CancelScope] = []

    async def connect_and_cancel(*arguments: Any) -> async_connections.AsyncConnection:
        connection = await connect(*arguments)
        while scopes:
            scopes.pop().cancel()
        return connection

    async def body(client: AsyncMerchantClient) -> int:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await client.send(get())
        assert scope.cancelled_caught
        status: int = (await client.send(get())).status
        return status

    monkeypatch.setattr(async_connections, "open_async", connect_and_cancel)
    with service(says(ok())) as merchant:
        assert run(Speaker(backend), merchant, body) == 200
        eventually(lambda: merchant.open == 0, "every connection is closed")


# asyncio's own means


@pytest.fixture
def on_asyncio() -> Speaker:
    return Speaker("asyncio")


def test_native_cancel(on_asyncio: Speaker, merchant: Service) -> None:
    async def body(client: AsyncMerchantClient) -> bool:
        task = asyncio.create_task(client.send(get()))
        await arrival(merchant)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run(on_asyncio, merchant, body) is True


def test_native_timeout(on_asyncio: Speaker, merchant: Service) -> None:
    async def body(client: AsyncMerchantClient) -> str:
        async def expire_native(limit: asyncio.Timeout) -> None:
            await arrival(merchant)
            limit.reschedule(asyncio.get_running_loop().time())

        async with asyncio.TaskGroup() as tasks:
            try:
                async with asyncio.timeout(20) as limit:
                    tasks.create_task(expire_native(limit))
                    await client.send(get())
            except TimeoutError:
                return "too late"
        return "answered"

    assert run(on_asyncio, merchant, body) == "too late"


def test_a_native_task_group_that_breaks_ends_its_calls(on_asyncio: Speaker, merchant: Service) -> None:
    async def body(client: AsyncMerchantClient) -> list[type[Exception]]:
        async def fail() -> None:
            await arrival(merchant)
            raise ZeroDivisionError

        async def group() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(client.send(get()))
                tasks.create_task(fail())

        # In a task of its own: on Python 3.11 a group that broke leaves its task marked as cancelled.
        with pytest.raises(ExceptionGroup) as broken:
            await asyncio.create_task(group())
        return [type(error) for error in broken.value.exceptions]

    assert run(on_asyncio, merchant, body) == [ZeroDivisionError]


def test_a_call_in_the_cleanup_of_a_cancelled_task_is_answered(on_asyncio: Speaker) -> None:
    """A task whose earlier cancellation was caught is not cancelled anew by its next call."""

    async def body(client: AsyncMerchantClient) -> int:
        async def work() -> int:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                status: int = (await client.send(get())).status
                return status
            raise AssertionError

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    with service(says(ok())) as merchant:
        assert run(on_asyncio, merchant, body) == 200


def test_a_cancellation_that_meets_the_reply_is_not_lost() -> None:
    """Cancelled in the very turn in which the reply is there: the task still ends as cancelled."""
    replied = threading.Event()

    def answer(connection: socket.socket, _seen: Seen) -> None:
        connection.sendall(ok())
        replied.set()

    async def body(client: AsyncMerchantClient) -> list[bool]:
        await client.send(get())
        ends = []
        for _ in range(30):
            replied.clear()
            task = asyncio.create_task(client.send(get()))
            while not replied.is_set() and not task.done():
                await asyncio.sleep(0)
            # The loop stands still while the reply arrives, so that it meets the cancellation at the next
            # turn. Where it does not arrive in time, this is a plain cancellation.
            time.sleep(0.002)
            if task.done():
                continue
            task.cancel()
            await asyncio.wait([task])
            ends.append(task.cancelled())
        return ends

    with service(answer) as merchant:
        ends = run(Speaker("asyncio"), merchant, body)
    assert ends
    assert all(ends)
