"""Each rule of money, weakened, is seen by the matrix: else its zeros would say nothing."""

import asyncio

import pytest

from tests.hostile.calls import CALLS
from tests.hostile.case import Case
from tests.hostile.harness import STACKS, Harness
from tests.hostile.matrix import play
from tests.hostile.mutants import BROKEN


@pytest.mark.parametrize("name", BROKEN)
def test_a_weakened_rule_is_caught(name: str, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    weaken, call_name, faults, wrong = BROKEN[name]
    call = next(call for call in CALLS if call.name == call_name)
    cases = [Case(call, fault, "first") for fault in call.faults() if faults in fault.name]
    weaken(monkeypatch)
    asyncio.run(play(cases, STACKS[0], harness))
    assert [case.name for case in cases if any(found.startswith(wrong) for found in case.wrongs)]
