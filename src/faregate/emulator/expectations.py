"""The calls that one emulator received, which of them a test expects, and the report when others came."""

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Lock
from typing import Any, Final, TypedDict, get_args

import anyio

from faregate.emulator.calls import CallLog, RecordedCall
from faregate.errors import ConfigurationError
from faregate.rules.published_payers import TEST_PAYERS
from faregate.rules.routes import Operation
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
    criteria: Criteria = {} if operation is None else {"operation": operation}
    criteria.update(match)
    if criteria.get("payer") in TEST_PAYERS:
        criteria["payer"] = TEST_PAYERS[criteria["payer"]].address
    return criteria


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

    A call too many fails; with `strict`, so does a call without an expectation. Reads of the contracts
    document are always allowed: a paywall makes them when it needs to.
    """
    assigned, unassigned = _assign(expected, calls)
    unexpected = [call for call in unassigned if _is_unexpected(call, expected, strict)]
    missing = [
        (expectation, len(received))
        for expectation, received in zip(expected, assigned, strict=True)
        if expectation.times is not None and len(received) < expectation.times
    ]
    if unexpected or missing:
        open_first = sorted(
            expected, key=lambda expectation: not any(expectation is short for short, _ in missing)
        )
        raise ExpectationFailed("\n".join(_describe_failure(unexpected, missing, open_first, calls)))


def _is_unexpected(call: RecordedCall, expected: Sequence[Expectation], strict: bool) -> bool:
    if any(is_match(call, expectation.criteria) for expectation in expected):
        return True
    return strict and call.operation != "contracts"


def _assign(
    expected: Sequence[Expectation], calls: Iterable[RecordedCall]
) -> tuple[list[list[RecordedCall]], list[RecordedCall]]:
    """Assign calls to expectations so that as few as possible are left over; return both.

    A call whose expectation is full moves earlier ones to other expectations (augmenting paths). First come,
    first served would fail a test whose broad expectation takes the call that a narrow one needs.
    """
    assigned: list[list[RecordedCall]] = [[] for _ in expected]

    def place(call: RecordedCall, tried: set[int]) -> bool:
        for number, expectation in enumerate(expected):
            if number in tried or not is_match(call, expectation.criteria):
                continue
            tried.add(number)
            if expectation.times is None or len(assigned[number]) < expectation.times:
                assigned[number].append(call)
                return True
            for seat, other in enumerate(assigned[number]):
                if place(other, tried):
                    assigned[number][seat] = call
                    return True
        return False

    return assigned, [call for call in calls if not place(call, set())]


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
            nearest = min(expected, key=lambda expectation: _distance(call, expectation))
            yield f"    nearest is {nearest!r}{_explain(call, nearest)}"
    if missing:
        yield "calls that did not come:"
    for expectation, came in missing:
        yield f"  {expectation!r} came {came} of {expectation.times} times"
        others = [call for call in calls if list_differences(call, expectation.criteria)]
        if others:
            call = min(others, key=lambda call: _distance(call, expectation))
            yield f"    nearest is {call!r}{_explain(call, expectation)}"


def _distance(call: RecordedCall, expectation: Expectation) -> tuple[bool, int]:
    differences = list_differences(call, expectation.criteria)
    return "operation" in differences, len(differences)


def _explain(call: RecordedCall, expectation: Expectation) -> str:
    differences = list_differences(call, expectation.criteria)
    if not differences:
        return f", expected {expectation.times} times"
    described = (
        f"{name} {getattr(call, name)!r} instead of {expectation.criteria[name]!r}" for name in differences
    )
    return f": {', '.join(described)}"


_POLL_SECONDS: Final = 0.005


class NoSuchCall(AssertionError):
    """The calls that a test waited for did not come in time; the text says which came instead."""


class CallRecorder:
    """Keeps the calls, and the expectations that are still to be checked against them.

    `lock` is the emulator's: code that writes to `log` holds it, and calls `notify` once a call is answered.
    """

    def __init__(self, lock: Lock) -> None:
        self.log = CallLog()
        self._lock = lock
        self._answered = Condition(lock)
        self._expected: list[Expectation] = []

    def notify(self) -> None:
        """Wake up those who wait; the caller holds the lock."""
        self._answered.notify_all()

    def clear(self) -> None:
        """Forget all calls and expectations; the caller holds the lock."""
        self.log = CallLog()
        self._expected.clear()

    def find(self, operation: str | None, match: Match) -> list[RecordedCall]:
        """List the matching calls, oldest first."""
        criteria = build_criteria(operation, match)
        with self._lock:
            calls = list(self.log)
        return _select(calls, criteria)

    def wait(self, operation: str | None, match: Match, count: int, timeout: float) -> list[RecordedCall]:
        """Block until there are `count` matching calls; `NoSuchCall` after `timeout` seconds."""
        criteria, end = build_criteria(operation, match), time.monotonic() + timeout
        # A condition over the emulator's own lock: no call can come between the look and the wait.
        with self._answered:
            while len(matching := _select(self.log, criteria)) < count:
                rest = end - time.monotonic()
                if rest <= 0:
                    raise _build_error(criteria, matching, count, timeout, list(self.log))
                self._answered.wait(rest)
        return matching

    async def wait_async(
        self, operation: str | None, match: Match, count: int, timeout: float
    ) -> list[RecordedCall]:
        """Await them instead. It polls, since the calls may come from threads without an event loop."""
        criteria, end = build_criteria(operation, match), time.monotonic() + timeout
        while len(matching := self.find(operation, match)) < count:
            if time.monotonic() >= end:
                raise _build_error(criteria, matching, count, timeout, self.find(None, {}))
            await anyio.sleep(_POLL_SECONDS)
        return matching

    def expect(self, operation: str, match: Match, times: int | None) -> Expectation:
        expectation = Expectation(build_criteria(operation, match), times)
        self._expected.append(expectation)
        return expectation

    def assert_expected(self, strict: bool) -> None:
        """Check all calls against the expectations, and forget the expectations."""
        expected, self._expected = self._expected, []
        check_expectations(expected, self.find(None, {}), strict=strict)

    @contextmanager
    def strict(self) -> Generator[None]:
        """Check the calls made in this block against the expectations made in it."""
        log, count, before = self.log, self.log.count, self._expected
        self._expected = expected = list[Expectation]()
        try:
            yield
        finally:
            self._expected = before
        # After a reset the log is a new one, and all of its calls belong to the block.
        start = count if self.log is log else 0
        check_expectations(
            expected, [call for call in self.find(None, {}) if call.number > start], strict=True
        )


def _select(calls: Iterable[RecordedCall], criteria: Criteria) -> list[RecordedCall]:
    return [call for call in calls if is_match(call, criteria)]


def _build_error(
    criteria: Criteria, matching: list[RecordedCall], count: int, timeout: float, came: list[RecordedCall]
) -> NoSuchCall:
    last = (f"\n  {call!r}" for call in came[-20:])
    what = f"{Expectation(criteria)!r} came {len(matching)} of {count} times in {timeout:g} s"
    return NoSuchCall("".join((what, "; the last calls:" if came else "; there was no call", *last)))
