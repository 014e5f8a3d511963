"""All cases of a call on one stand, played many at a time."""

import asyncio

from tests.hostile.calls import CALLS, WINDOWS, Call
from tests.hostile.case import Case
from tests.hostile.checker import NEVER_MET
from tests.hostile.harness import STACKS, Harness, Payers, Stack, payers
from tests.hostile.scenario import Scenario

AT_ONCE = {True: 24, False: 12}
"""Cases played at the same time: mute services cost nothing but time."""

LONGEST = 10.0
"""Seconds."""


async def play(cases: list[Case], stack: Stack, harness: Harness) -> None:
    """All of them, each to its end."""
    limits = {mute: asyncio.Semaphore(number) for mute, number in AT_ONCE.items()}

    async def one(number: int, clients: Payers) -> None:
        async with limits[cases[number].fault.mute]:
            await Scenario(cases[number], stack, harness, clients).play()
            while not cases[number].met and cases[number].patience < LONGEST:
                cases[number] = _slower(cases[number])
                await Scenario(cases[number], stack, harness, clients).play()

    async with payers(harness.urls) as clients, asyncio.TaskGroup() as group:
        for number in range(len(cases)):
            group.create_task(one(number, clients))


def _slower(case: Case) -> Case:
    """On a busy machine a call may be lost before the one that was to go wrong."""
    wrongs = [wrong for wrong in case.wrongs if wrong != NEVER_MET]
    return Case(case.call, case.fault, case.window, wrongs=wrongs, patience=4 * case.patience)


def every_case(call: Call) -> list[Case]:
    """Each fault in each window."""
    return [Case(call, fault, window) for fault in call.faults() for window in WINDOWS]


def some_cases(call: Call, stack: Stack, full: bool = False) -> list[Case]:
    """Each fault of this call's own, and of those at every call each ninth: at another call another one.

    On the stacks in turn, and in the windows in turn. With `full`, every fault at every call.
    """
    own = [fault.name for fault in call.own()]
    shared = [fault for fault in call.faults() if fault.name not in own]
    faults = [*call.own(), *([] if call.twin else shared if full else shared[CALLS.index(call) :: 9])]
    mine = list(enumerate(faults))[STACKS.index(stack) :: len(STACKS)]
    windows = ("first", "again", "first", "always")
    return [Case(call, fault, windows[place // len(STACKS) % len(windows)]) for place, fault in mine]
