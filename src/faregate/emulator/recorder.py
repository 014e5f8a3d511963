"""The calls one emulator received, and what a test expects of them."""

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Final

import anyio

from faregate.emulator.calls import CallLog, RecordedCall
from faregate.emulator.expectations import (
    Criteria,
    Expectation,
    Match,
    build_criteria,
    check_expectations,
    is_match,
)

_POLL_SECONDS: Final = 0.005


class NoSuchCall(AssertionError):
    """The calls that a test waited for did not come in time; the text says which came instead."""


class CallRecorder:
    """Keeps the calls, and the expectations that are still to be checked against them.

    `lock` is the emulator's: whoever writes to `log` holds it, and calls `notify` once a call is answered.
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
            while len(found := _select(self.log, criteria)) < count:
                rest = end - time.monotonic()
                if rest <= 0:
                    raise _build_error(criteria, found, count, timeout, list(self.log))
                self._answered.wait(rest)
        return found

    async def wait_async(
        self, operation: str | None, match: Match, count: int, timeout: float
    ) -> list[RecordedCall]:
        """Await them instead. It polls, since the calls may come from threads without an event loop."""
        criteria, end = build_criteria(operation, match), time.monotonic() + timeout
        while len(found := self.find(operation, match)) < count:
            if time.monotonic() >= end:
                raise _build_error(criteria, found, count, timeout, self.find(None, {}))
            await anyio.sleep(_POLL_SECONDS)
        return found

    def expect(self, operation: str, match: Match, times: int | None) -> Expectation:
        """Add an expectation."""
        made = Expectation(build_criteria(operation, match), times)
        self._expected.append(made)
        return made

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
    criteria: Criteria, found: list[RecordedCall], count: int, timeout: float, came: list[RecordedCall]
) -> NoSuchCall:
    last = (f"\n  {call!r}" for call in came[-20:])
    what = f"{Expectation(criteria)!r} came {len(found)} of {count} times in {timeout:g} s"
    return NoSuchCall("".join((what, "; the last calls:" if came else "; there was no call", *last)))
