"""Products of parameters, of which the suite takes a part and `--full` all.

Two ways to say which part. `spread` thins one parameter, whatever it is multiplied with: each test, with
each of its other parameters, runs on one value of each class, and the values take turns. `take_part` thins
a list of cases that is a product itself.

A test that needs each value says `@pytest.mark.every_value`. A test that is named by its id always runs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, cast

import pytest
from _pytest.mark.structures import ParameterSet

PART = 5
"""Prime to the numbers of orders, so that each place is taken by each in turn."""


def take_part(
    cases: Iterable[tuple[Any, ...]], is_always: Callable[..., bool], others: int = PART
) -> list[ParameterSet]:
    """Return the cases that are taken always, each fifth of the others, and the rest marked for `--full`.

    `others` is which part of the others is taken instead: 0 for none.
    """
    number = 0
    parts: list[ParameterSet] = []
    for case in cases:
        number += not is_always(*case)
        is_left = not is_always(*case) and (others == 0 or number % others)
        parts.append(pytest.param(*case, marks=[pytest.mark.full] if is_left else []))
    return parts


def spread(
    name: str,
    values: Iterable[Any],
    find_class: Callable[[Any], str] = lambda _: "",
    thinned: Collection[str] = (),
) -> list[ParameterSet]:
    """Return the values of the parameter `name`. Of each class, each case takes one: they take turns.

    Of a class that is `thinned`, only the first case of each test does, and each fifth that follows.
    """
    return [
        pytest.param(value, marks=[pytest.mark.spread(name, kind, PART if kind in thinned else 1)])
        for value in values
        for kind in (find_class(value),)
    ]


def find_left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the tests that only `--full` runs."""
    left_out: set[pytest.Item] = set()
    groups: dict[tuple[object, ...], list[pytest.Item]] = defaultdict(list)
    twins: Counter[tuple[object, ...]] = Counter()
    for item in items:
        if item.get_closest_marker("full") is not None:
            left_out.add(item)
        elif _is_spread(item):
            case = _find_case(item)
            twins[case, _find_value(item)] += 1  # two cases may have the same parameters
            groups[*case, twins[case, _find_value(item)]].append(item)
    used: Counter[tuple[object, ...]] = Counter()
    cases: Counter[tuple[object, ...]] = Counter()
    for (file, kind, test, every, *_), group in groups.items():
        cases[kind, file, test] += 1
        if (cases[kind, file, test] - 1) % cast(int, every):
            left_out.update(group)
            continue
        # The one that this file has used least. Its siblings differ in nothing but this parameter.
        chosen = min(group, key=lambda item: used[file, kind, _find_value(item)])
        used[file, kind, _find_value(chosen)] += 1
        left_out.update(item for item in group if item is not chosen)
    return left_out


def _is_spread(item: pytest.Item) -> bool:
    return item.get_closest_marker("spread") is not None and item.get_closest_marker("every_value") is None


def _find_case(item: pytest.Item) -> tuple[object, ...]:
    """What the test and its siblings have in common."""
    name, kind, every = _find_mark(item).args
    others = sorted((other, id(value)) for other, value in _find_parameters(item).items() if other != name)
    return item.path, kind, item.nodeid.partition("[")[0], every, tuple(others)


def _find_value(item: pytest.Item) -> int:
    return id(_find_parameters(item)[_find_mark(item).args[0]])


def _find_mark(item: pytest.Item) -> pytest.Mark:
    mark = item.get_closest_marker("spread")
    assert mark is not None
    return mark


def _find_parameters(item: pytest.Item) -> dict[str, Any]:
    called: Any = getattr(item, "callspec")  # noqa: B009  (of functions only)
    return cast(dict[str, Any], called.params)
