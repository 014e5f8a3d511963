"""What runs to its end is not cancelled from outside, and its own deadlines still hold."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

from faregate.middleware.shielding import run_shielded, run_uncancelled


async def _time_out_by_anyio() -> None:
    with anyio.fail_after(0.01):
        await asyncio.sleep(30)


async def _time_out_by_asyncio() -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(30)


async def _time_out_by_timer() -> None:
    """As libraries do that have their own timers."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.01, task.cancel)
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        task.uncancel()
        raise TimeoutError from None


async def _fail_in_a_group() -> None:
    async def fail() -> None:
        raise TimeoutError

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.sleep(30)
    except* TimeoutError:
        raise TimeoutError from None


@pytest.mark.parametrize(
    "work", [_time_out_by_anyio, _time_out_by_asyncio, _time_out_by_timer, _fail_in_a_group]
)
def test_a_deadline_within_the_work_ends_it_and_nothing_else(work: Callable[[], Awaitable[None]]) -> None:
    said: list[str] = []

    async def fail() -> None:
        with pytest.raises(TimeoutError):
            await work()
        said.append("over")

    async def request() -> None:
        await run_uncancelled(fail)
        await asyncio.sleep(0)
        said.append("answered")

    asyncio.run(run_shielded(request))
    assert said == ["over", "answered"]


async def _limit_by_anyio(work: Callable[[], Awaitable[None]]) -> None:
    with anyio.fail_after(0.01):
        await work()


async def _limit_by_asyncio(work: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(0.01):
        await work()


@pytest.mark.parametrize("limit", [_limit_by_anyio, _limit_by_asyncio])
def test_a_deadline_around_the_work_strikes_after_it(
    limit: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]],
) -> None:
    said: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.05)
        said.append("worked")

    async def complete() -> None:
        await run_uncancelled(work)
        said.append("answered")

    async def request() -> None:
        with pytest.raises(TimeoutError):
            await limit(complete)
        said.append("over")

    asyncio.run(run_shielded(request))
    assert said == ["worked", "over"]


def test_a_cancellation_by_another_task_strikes_after_the_work() -> None:
    said: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.05)
        said.append("worked")

    async def request() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.01, task.cancel)
        await run_uncancelled(work)
        said.append("answered")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run_shielded(request))
    assert said == ["worked"]
