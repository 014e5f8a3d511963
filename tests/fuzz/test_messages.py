"""A part of the random applications: `scripts/fuzz-messages` plays more."""

from typing import Any

import pytest

from tests.fuzz import asgi, wsgi
from tests.fuzz.run import play
from tests.support.campaigns import Progress

FOUND: list[tuple[Any, int]] = [
    *((asgi.Case, seed) for seed in (38, 293, 1099, 1493, 2168, 3917, 7634, 7912)),
    *((wsgi.Case, seed) for seed in (115422, 118028, 119094, 120242)),
]
"""Programs that broke a rule once."""


@pytest.mark.filterwarnings("ignore")
def test_random_applications_break_no_rule() -> None:
    tally = play(range(240), Progress(quiet=True))
    assert not tally.broken, "\n\n".join(f"seed {seed}:\n{text}" for seed, text in tally.broken.items())
    assert tally.released > 50


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("case", "seed"), FOUND)
def test_programs_that_broke_a_rule_once(case: Any, seed: int) -> None:
    assert case(seed).play() == []


@pytest.mark.filterwarnings("ignore")
def test_a_handler_that_cancels_itself_before_its_last_message_does_not_interrupt_its_completion() -> None:
    case = asgi.Case(38)
    case.play()
    statuses = [answer.status for answer in case.world.answers]
    assert (statuses[:4].count(500), statuses.count(503)) == (1, 0)
