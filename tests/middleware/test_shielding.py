"""What runs to its end is not cancelled from outside, and its own deadlines still hold."""

import asyncio

import anyio
import pytest

from faregate.middleware.shielding import run_shielded, run_uncancelled


def test_a_deadline_within_the_work_ends_it_and_nothing_else() -> None:
    said: list[str] = []

    async def work() -> None:
        with anyio.move_on_after(0.01) as scope:
            await anyio.sleep(30)
        said.append(f"over: {scope.cancelled_caught}")

    async def request() -> None:
        await run_uncancelled(work)
        await anyio.sleep(0)
        said.append("answered")

    asyncio.run(run_shielded(request))
    assert said == ["over: True", "answered"]


def test_a_cancellation_from_outside_strikes_after_the_work() -> None:
    said: list[str] = []

    async def work() -> None:
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        said.append("worked")

    async def request() -> None:
        tasks.append(asyncio.current_task() or pytest.fail("no task"))
        await run_uncancelled(work)
        said.append("answered")

    tasks: list[asyncio.Task[None]] = []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run_shielded(request))
    assert said == ["worked"]
