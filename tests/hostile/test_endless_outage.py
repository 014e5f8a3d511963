"""A service that never gets well: what is owed is kept and shown to people, and ends when its payer comes."""

import asyncio

import pytest

from tests.hostile import checker
from tests.hostile.calls import CALLS, Call
from tests.hostile.case import Case
from tests.hostile.harness import STACKS, Harness, Stack, payers, swept
from tests.hostile.scenario import Scenario

HORIZON = 4 * 24 * 3600.0
FAULTS = ("hung up", "a short body", "status 500", "status 401", "status 404", "b'null'", "noise")
OWING = [call for call in CALLS if call.operation in ("complete", "transaction", "fail")]


async def grow_old(case: Case, stack: Stack, harness: Harness) -> None:
    async with payers(harness.urls) as clients:
        scenario = Scenario(case, stack, harness, clients)
        case.proofs = scenario.sign()
        await scenario.visit()
        for _ in range(3):
            await age(case, stack)
            await come_back(scenario)  # what was settled without its payer waits for a day
        if case.is_named:
            await age(case, stack)  # the payment of the last visit, too
        assert not case.owed()
        await harness.mend(scenario.name, case, stack)
        await come_back(scenario)
        checker.look_back(case)
        await harness.close(scenario.name, case, stack)


async def age(case: Case, stack: Stack) -> None:
    case.clock.now += HORIZON
    case.emulator_clock.advance(HORIZON)
    await swept(case, stack)


async def come_back(scenario: Scenario) -> None:
    """Visit; a named purchase with a new payment, as the earlier ones are too old to be accepted."""
    if scenario.case.is_named:
        scenario.case.proofs = scenario.sign()
    await scenario.visit()


@pytest.mark.parametrize("stack", STACKS[:2], ids=str)
@pytest.mark.parametrize("call", OWING, ids=lambda call: call.name)
def test_what_never_ends_is_shown_and_kept(call: Call, stack: Stack, harness: Harness) -> None:
    faults = [fault for fault in call.faults() if fault.name.partition(",")[0] in FAULTS]
    assert len(faults) >= len(FAULTS)
    for fault in faults:
        case = Case(call, fault, "always")
        asyncio.run(grow_old(case, stack, harness))
        assert not case.wrongs, case.name
