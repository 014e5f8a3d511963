"""What a test asks of an emulator: which calls came, and were they expected."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Final, TypeVar, Unpack

import anyio

from faregate.emulator.calls import Diary, RecordedCall
from faregate.emulator.expectations import Expectation, Match, Wanted, check, fits, wanted
from faregate.service.app import Service

T = TypeVar("T")
_LOOK_AGAIN: Final = 0.005


class NoSuchCall(AssertionError):
    """The calls that were waited for did not come in time; the text says which came instead."""


class Witness(ABC):
    """The asking side of `Emulator`. Calls are in the diary from their receipt, and stay when nobody asks."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._answered = Condition(self._lock)
        self._diary = Diary()
        self._expected: list[Expectation] = []

    def _forget(self) -> None:
        """As if nobody had called or expected anything yet; under the lock."""
        self._diary = Diary()
        self._expected.clear()

    @abstractmethod
    def look(self, see: Callable[[Service, Diary], T]) -> T:
        """What `see` makes of the world as it is now."""

    def calls(self, operation: str | None = None, **match: Unpack[Match]) -> list[RecordedCall]:
        """Of the last 10,000 calls those that match, oldest first: `calls("complete", status=200)`.

        Without arguments all; `calls(transaction="txn_...")` are all of one transaction, from the access
        that led to it on.
        """
        sought = wanted(operation, match)
        with self._lock:
            found = list(self._diary)
        return [call for call in found if fits(call, sought)] if sought else found

    def wait_for(
        self, operation: str | None = None, *, count: int = 1, timeout: float = 5.0, **match: Unpack[Match]
    ) -> list[RecordedCall]:
        """The matching calls, as soon as there are `count` of them, earlier ones included.

        Blocks its thread. `NoSuchCall` after `timeout` real seconds, whatever the world's clock says.
        """
        sought, end = wanted(operation, match), time.monotonic() + timeout
        with self._answered:
            while len(found := _matching(self._diary, sought)) < count:
                rest = end - time.monotonic()
                if rest <= 0:
                    raise _not_come(sought, found, count, timeout, list(self._diary))
                self._answered.wait(rest)
        return found

    async def await_for(
        self, operation: str | None = None, *, count: int = 1, timeout: float = 5.0, **match: Unpack[Match]
    ) -> list[RecordedCall]:
        """`wait_for`, awaiting: under asyncio and trio."""
        sought, end = wanted(operation, match), time.monotonic() + timeout
        while len(found := self.calls(operation, **match)) < count:
            if time.monotonic() >= end:
                raise _not_come(sought, found, count, timeout, self.calls())
            await anyio.sleep(_LOOK_AGAIN)
        return found

    def expect(self, operation: str, *, times: int | None = 1, **match: Unpack[Match]) -> Expectation:
        """Says that a call comes so many times, of all calls or, inside `strict()`, of those in the block.

        `times=None` is any number. See `assert_expected` for who checks it.
        """
        made = Expectation(wanted(operation, match), times)
        self._expected.append(made)
        return made

    def assert_expected(self, *, strict: bool = False) -> None:
        """`ExpectationFailed` if what was expected did not come or came too often; says what came nearest.

        With `strict` also for every call that nobody expected, except reads of the contracts document.
        The expectations are done with after it. The pytest fixture asks this at the end of a test.
        """
        expected, self._expected = self._expected, []
        check(expected, self.calls(), strict=strict)

    @contextmanager
    def strict(self) -> Generator[None]:
        """In this block every call must be expected: `assert_expected(strict=True)` of its own calls.

        Expectations may be written before or after their calls. They are not looked at if the block raises.
        """
        diary, count, before = self._diary, self._diary.count, self._expected
        self._expected = expected = list[Expectation]()
        try:
            yield
        finally:
            self._expected = before
        start = count if self._diary is diary else 0
        check(expected, [call for call in self.calls() if call.number > start], strict=True)


def _matching(calls: Iterable[RecordedCall], sought: Wanted) -> list[RecordedCall]:
    return [call for call in calls if fits(call, sought)]


def _not_come(
    sought: Wanted, found: list[RecordedCall], count: int, timeout: float, came: list[RecordedCall]
) -> NoSuchCall:
    told = (f"\n  {call!r}" for call in came[-20:])
    what = f"{Expectation(sought)!r} came {len(found)} of {count} times in {timeout:g} s"
    return NoSuchCall("".join((what, "; what came last:" if came else "; nothing came", *told)))
