"""Under asyncio, what would cancel a task while it completes a payment strikes after that."""

import asyncio
from collections.abc import Callable, Coroutine

import anyio
import pytest

from faregate.checkout.shielding import run_shielded, run_uncancelled

Cancel = Callable[[asyncio.Task[None]], object]


def complete(cancel: Cancel) -> list[str]:
    """Complete in a shielded task that is cancelled meanwhile; return what happened."""
    happened: list[str] = []

    async def completion() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        happened.append("completed")

    async def request() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(cancel, task)
        try:
            await run_uncancelled(completion)
            happened.append("not cancelled")
        except asyncio.CancelledError:
            happened.append("cancelled")

    asyncio.run(run_shielded(request))
    return happened


def test_a_cancellation_strikes_after_the_completion() -> None:
    assert complete(lambda task: task.cancel()) == ["completed", "cancelled"]


def test_without_a_cancellation_nothing_strikes() -> None:
    assert complete(lambda _task: None) == ["completed", "not cancelled"]


def test_who_waits_for_a_task_that_never_began_is_cancelled_too() -> None:
    async def cancel_others() -> None:
        caller = asyncio.create_task(run_shielded(lambda: asyncio.sleep(60)))
        await asyncio.sleep(0)
        (task,) = asyncio.all_tasks() - {caller, asyncio.current_task()}
        task.cancel()
        await asyncio.wait([caller], timeout=5)
        assert caller.cancelled()

    asyncio.run(cancel_others())


def test_a_loop_that_ends_cancels_shielded_work_and_completions() -> None:
    """asyncio.run cancels what is left when its loop no longer runs, and waits for it."""
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ended")

    async def leave(shielded: Callable[[], Coroutine[None, None, None]]) -> None:
        tasks.append(asyncio.create_task(run_shielded(shielded)))
        await asyncio.sleep(0.01)

    tasks: list[asyncio.Task[None]] = []
    for shielded in (work, lambda: run_uncancelled(work)):
        asyncio.run(asyncio.wait_for(leave(shielded), 5))
    assert ended == ["ended", "ended"]


def test_a_deadline_around_the_completion_strikes_after_it() -> None:
    happened: list[str] = []

    async def completion() -> None:
        await asyncio.sleep(0.02)
        happened.append("completed")

    async def by_asyncio() -> None:
        async with asyncio.timeout(0.001):
            await run_uncancelled(completion)

    async def by_anyio() -> None:
        with anyio.fail_after(0.001):
            await run_uncancelled(completion)

    for work in (by_asyncio, by_anyio):
        with pytest.raises(TimeoutError):
            asyncio.run(run_shielded(work))
    assert happened == ["completed", "completed"]


def test_a_deadline_within_the_completion_strikes_at_once() -> None:
    async def by_asyncio() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(60)

    async def by_anyio() -> None:
        with anyio.fail_after(0.001):
            await asyncio.sleep(60)

    for completion in (by_asyncio, by_anyio):
        with pytest.raises(TimeoutError):
            asyncio.run(run_shielded(lambda work=completion: run_uncancelled(work)))  # type: ignore[misc]
