"""Products of parameters, of which the suite takes a part and `--full` all."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

PART = 5
"""Prime to the numbers of orders, so that each place is taken by each in turn."""


def take_part(cases: Iterable[tuple[Any, ...]], is_always: Callable[..., bool]) -> list[ParameterSet]:
    """Return the cases that are taken always, each fifth of the others, and the rest marked for `--full`."""
    others = 0
    parts = []
    for case in cases:
        others += not is_always(*case)
        is_left = not is_always(*case) and others % PART
        parts.append(pytest.param(*case, marks=[pytest.mark.full] if is_left else []))
    return parts
