"""Every fault at every call, its first time and when it is repeated, through real adapters.

Nothing leaves unpaid, nobody is asked to pay anew for what is open, nothing runs twice, no payer sees an
exception or anything of the inside; and when the service is well again, each sale comes to its end.
"""

import asyncio
import os

import pytest

from tests.hostile.calls import CALLS, Call
from tests.hostile.conftest import EVERYTHING, Exceptions
from tests.hostile.harness import STACKS, Harness, Stack
from tests.hostile.matrix import every_case, play, some_cases
from tests.hostile.report import tally


@pytest.mark.parametrize("stack", STACKS, ids=str)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_misbehaving_service(
    call: Call, stack: Stack, harness: Harness, exceptions: Exceptions, request: pytest.FixtureRequest
) -> None:
    cases = (
        every_case(call)
        if os.environ.get(EVERYTHING)
        else some_cases(call, stack, request.config.getoption("--full"))
    )
    asyncio.run(play(cases, stack, harness))
    tally.count(cases)
    assert "\n".join(f"{case.name}: {case.wrongs}" for case in cases if case.wrongs) == ""
    assert not harness.services.strayed
    assert not exceptions.seen


def test_each_case_has_a_name_of_its_own() -> None:
    names = [f"{call.name}: {fault.name}" for call in CALLS for fault in call.faults()]
    assert len(names) == len(set(names))
