"""Two requests, a sweep, crashes and a clock that jumps, in every order; and each rule broken once."""

from array import array

import pytest

from tests.model.explore import Broken, explore
from tests.model.mutants import MUTANTS, Mutant
from tests.model.schedule_count import number_of_schedules
from tests.model.scope import Scope
from tests.model.scopes import SUITE

NEAREST = 30_000
"""States of each scope. Each broken rule shows in these; `python -m tests.model.explore` takes all."""


@pytest.mark.parametrize("scope", SUITE, ids=lambda scope: scope.name)
def test_no_order_of_events_breaks_a_rule(scope: Scope) -> None:
    assert explore(scope, limit=NEAREST).states >= NEAREST


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_rule_that_is_broken_is_found(mutant: Mutant) -> None:
    with mutant.flows() as flows, pytest.raises(Broken):
        explore(mutant.scope, flows, limit=NEAREST)


def test_a_schedule_that_breaks_a_rule_is_printed_step_by_step() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "the sweep takes rows under lease")
    with mutant.flows() as flows, pytest.raises(Broken) as broken:
        explore(mutant.scope, flows)
    told = str(broken.value).splitlines()
    assert told[0] == "two requests: a row was taken while somebody held its lease"
    assert told[1].split() == ["1", "request", "1:", "ClaimProof", "->", "Claimed", "#1"]
    assert told[-1].split() == [str(len(told) - 1), "sweep:", "LeaseNext"]


def test_schedules_are_counted_along_all_ways() -> None:
    two_ways_round = array("q", [2, 1, 2, 1, 3, 1, 3, 0])
    assert number_of_schedules(two_ways_round) == 2
    with pytest.raises(ValueError, match="without an end"):
        number_of_schedules(array("q", [1, 1, 1, 0]))
