"""Each journal in turn, on a clock that the test moves. Some modules have fixtures of their own instead."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.journals.stores import JOURNALS, AnyJournal, disconnect, find_class
from tests.journals.stores import Clock as Clock
from tests.support.products import spread


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=spread("journal", JOURNALS, find_class))
def journal(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Generator[AnyJournal]:
    made = JOURNALS[request.param](tmp_path, clock)
    yield made
    disconnect(made)
