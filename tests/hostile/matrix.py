"""All cases of a call on one stand, played many at a time."""

import asyncio
from collections.abc import Callable, Iterable

from tests.hostile.calls import Call
from tests.hostile.case import WINDOWS, Case
from tests.hostile.stand import House, Payers, Stand, payers
from tests.hostile.story import Story

AT_ONCE = 12
MUTE_AT_ONCE = 24


async def play(cases: list[Case], stand: Stand, house: House) -> None:
    limits = {True: asyncio.Semaphore(MUTE_AT_ONCE), False: asyncio.Semaphore(AT_ONCE)}

    async def one(case: Case, payers: Payers) -> None:
        async with limits[case.fault.mute]:
            await Story(case, stand, house, payers).play()

    async with payers(house.urls) as clients, asyncio.TaskGroup() as group:
        for case in cases:
            group.create_task(one(case, clients))


def cases(call: Call, windows: Iterable[str] = WINDOWS, wanted: Callable[[str], bool] = bool) -> list[Case]:
    return [Case(call, fault, window) for fault in call.faults() for window in windows if wanted(fault.name)]
