"""Which calls a test expects, and the report when others came."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict, get_args

from faregate.emulator.calls import RecordedCall
from faregate.errors import ConfigurationError
from faregate.service.published_payers import TEST_PAYERS
from faregate.service.routes import Operation
from faregate.x402.tokens import Environment

OPERATIONS: Final[tuple[str, ...]] = get_args(Operation)


class Match(TypedDict, total=False):
    """Criteria for a call; what is left out matches everything.

    `resource` is an integration key, `payer` an address or the name of a test payer, `fault` the id of the
    fault it met, None for a call without one. `undone` calls are those before a restore.
    """

    environment: Environment
    resource: str | None
    payer: str | None
    transaction: str | None
    status: int
    fault: str | None
    method: str
    undone: bool


Criteria = dict[str, Any]
"""Attributes of a call and their values."""


def build_criteria(operation: str | None, match: Match) -> Criteria:
    """Combine operation and criteria; `ConfigurationError` for an unknown operation."""
    if operation is not None and operation not in OPERATIONS:
        raise ConfigurationError(f"there is no operation {operation!r}; there are {', '.join(OPERATIONS)}")
    found: Criteria = {} if operation is None else {"operation": operation}
    found.update(match)
    if found.get("payer") in TEST_PAYERS:
        found["payer"] = TEST_PAYERS[found["payer"]].address
    return found


def list_differences(call: RecordedCall, criteria: Criteria) -> list[str]:
    """List the criteria that the call does not meet."""
    return [name for name, value in criteria.items() if _normalize(getattr(call, name)) != _normalize(value)]


def is_match(call: RecordedCall, criteria: Criteria) -> bool:
    return not list_differences(call, criteria)


def _normalize(value: Any) -> Any:
    """Ignore case: addresses and methods are the same in any case."""
    return value.lower() if isinstance(value, str) else value


class ExpectationFailed(AssertionError):
    """Unexpected or missing calls; the text shows the nearest ones."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Expectation:
    """An expected call. `times` None is any number, including none."""

    criteria: Criteria
    times: int | None = 1

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 0:
            raise ConfigurationError(f"a call is expected 0 times or more, not {self.times}")

    def __repr__(self) -> str:
        described = ", ".join(
            f"{name}={value!r}" for name, value in self.criteria.items() if name != "operation"
        )
        return f"{self.criteria.get('operation', 'any call')}({described})"


def check_expectations(
    expected: Sequence[Expectation], calls: Sequence[RecordedCall], *, strict: bool
) -> None:
    """Raise `ExpectationFailed` unless the calls meet the expectations.

    A call too many fails; with `strict`, so does a call that nobody expected. Reads of the contracts document
    are always allowed: a paywall makes them when it needs to.
    """
    taken, left = _assign(expected, calls)
    unexpected = [call for call in left if _is_unexpected(call, expected, strict)]
    missing = [
        (one, len(found))
        for one, found in zip(expected, taken, strict=True)
        if one.times is not None and len(found) < one.times
    ]
    if unexpected or missing:
        open_first = sorted(expected, key=lambda one: not any(one is short for short, _ in missing))
        raise ExpectationFailed("\n".join(_describe_failure(unexpected, missing, open_first, calls)))


def _is_unexpected(call: RecordedCall, expected: Sequence[Expectation], strict: bool) -> bool:
    if any(is_match(call, one.criteria) for one in expected):
        return True
    return strict and call.operation != "contracts"


def _assign(
    expected: Sequence[Expectation], calls: Iterable[RecordedCall]
) -> tuple[list[list[RecordedCall]], list[RecordedCall]]:
    """Assign calls to expectations so that as few as possible are left over; return both.

    A call whose expectation is full moves earlier ones to other expectations (augmenting paths). First come,
    first served would fail a test whose broad expectation takes the call that a narrow one needs.
    """
    taken: list[list[RecordedCall]] = [[] for _ in expected]

    def place(call: RecordedCall, tried: set[int]) -> bool:
        for number, one in enumerate(expected):
            if number in tried or not is_match(call, one.criteria):
                continue
            tried.add(number)
            if one.times is None or len(taken[number]) < one.times:
                taken[number].append(call)
                return True
            for seat, other in enumerate(taken[number]):
                if place(other, tried):
                    taken[number][seat] = call
                    return True
        return False

    return taken, [call for call in calls if not place(call, set())]


def _describe_failure(
    unexpected: Sequence[RecordedCall],
    missing: Sequence[tuple[Expectation, int]],
    expected: Sequence[Expectation],
    calls: Sequence[RecordedCall],
) -> Iterator[str]:
    if unexpected:
        yield "calls that were not expected:"
    for call in unexpected:
        yield f"  {call!r}"
        if expected:
            one = min(expected, key=lambda one: _distance(call, one))
            yield f"    nearest is {one!r}{_explain(call, one)}"
    if missing:
        yield "calls that did not come:"
    for one, came in missing:
        yield f"  {one!r} came {came} of {one.times} times"
        others = [call for call in calls if list_differences(call, one.criteria)]
        if others:
            call = min(others, key=lambda call: _distance(call, one))
            yield f"    nearest is {call!r}{_explain(call, one)}"


def _distance(call: RecordedCall, one: Expectation) -> tuple[bool, int]:
    differences = list_differences(call, one.criteria)
    return "operation" in differences, len(differences)


def _explain(call: RecordedCall, one: Expectation) -> str:
    differences = list_differences(call, one.criteria)
    if not differences:
        return f", expected {one.times} times"
    described = (f"{name} {getattr(call, name)!r} instead of {one.criteria[name]!r}" for name in differences)
    return f": {', '.join(described)}"
