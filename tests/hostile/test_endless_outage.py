"""A service that never gets well: what is owed is kept and shown to people, and ends when its payer comes."""

import asyncio

import pytest

from tests.hostile import checker
from tests.hostile.calls import CALLS, Call
from tests.hostile.case import Case
from tests.hostile.harness import STANDS, House, Stand, payers, swept
from tests.hostile.scenario import Story

HORIZON = 4 * 24 * 3600.0
FAULTS = ("hung up", "a short body", "status 500", "status 401", "status 404", "b'null'", "noise")
OWING = [call for call in CALLS if call.operation in ("complete", "look", "fail")]


async def grow_old(case: Case, stand: Stand, house: House) -> None:
    async with payers(house.urls) as clients:
        story = Story(case, stand, house, clients)
        case.proof = story.proof()
        await story.visit()
        for _ in range(3):
            case.clock.now += HORIZON
            case.world_clock.advance(HORIZON)
            await swept(case, stand)
            await story.visit()  # what was settled without its payer waits for a day
        assert not case.owed()
        await house.mend(story.name, case, stand)
        await story.visit()
        checker.look_back(case)
        await house.close(story.name, case, stand)


@pytest.mark.parametrize("stand", STANDS[:2], ids=str)
@pytest.mark.parametrize("call", OWING, ids=lambda call: call.name)
def test_what_never_ends_is_shown_and_kept(call: Call, stand: Stand, houses: House) -> None:
    faults = [fault for fault in call.faults() if fault.name.partition(",")[0] in FAULTS]
    assert len(faults) >= len(FAULTS)
    for fault in faults:
        case = Case(call, fault, "always")
        asyncio.run(grow_old(case, stand, houses))
        assert not case.wrongs, case.name
