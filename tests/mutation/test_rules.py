"""The mutants stay in step with the source: each one still breaks the line it was written for."""

from pathlib import Path

import pytest

from tests.mutation.rules import MUTANTS, Mutant
from tests.mutation.spec import BREAKS, row_of, rows, spec_mutants

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", [*MUTANTS, *spec_mutants()], ids=lambda mutant: mutant.name)
def test_the_text_to_break_stands_exactly_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_tests_beside_each_rule_are_there() -> None:
    named = {
        word.partition("::")[0] for mutant in MUTANTS for word in mutant.tests if word.startswith("tests/")
    }
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    assert all(mutant.tests for mutant in MUTANTS)


def test_every_row_of_the_specification_is_broken_once() -> None:
    assert sorted(map(str, map(row_of, BREAKS))) == sorted(map(str, rows()))
