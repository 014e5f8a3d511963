"""Which calls belong to which transaction, and the 402 that came before it. Pure.

The first call of a purchase names neither payer nor transaction. The one taken for it is the newest 402
for the same resource that no other purchase claims. What was undone belongs to nothing.
"""

from collections import deque
from itertools import dropwhile, islice
from typing import Any, Final

from faregate.core.models import header_values
from faregate.emulator.control import picture
from faregate.emulator.diary import Diary, RecordedCall
from faregate.emulator.facts import Facts
from faregate.merchant.types import Environment

SHOWN: Final = 300
"""Calls that a page begins with."""
PIECE: Final = 500
"""Calls that are read at one look."""
KEPT: Final = 1_000
"""Transactions whose calls are remembered, and unclaimed 402s."""

_OF_ONE: Final = 50

Json = dict[str, Any]
Struck = tuple[int, str | None]
"""The number of a call, and the name of the fault that struck it."""


class Threads:
    """Reads all of the diary, and on from where it was last."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._read = 0
        self._new: deque[RecordedCall] = deque(maxlen=SHOWN)
        self._touched: set[str] = set()
        self._calls: dict[str, deque[Struck]] = {}
        self._asked: dict[str, Json] = {}
        self._unclaimed: deque[RecordedCall] = deque(maxlen=KEPT)

    def go_on(self, diary: Diary) -> bool:
        """False if the diary began anew."""
        return diary.count >= self._read

    def of(self, transaction: str) -> tuple[Json | None, list[Struck]]:
        """Its 402 and its calls, oldest first."""
        return self._asked.get(transaction), list(self._calls.get(transaction, ()))

    def take_in(self, diary: Diary) -> bool:
        """The next piece; False if that was not all."""
        if self._read == diary.count:
            return True
        for call in islice(dropwhile(lambda one: one.number <= self._read, diary), PIECE):
            self._read = call.number
            if (call.facts.environment or "test") == self._environment:
                self._new.append(call)
                self._follow(call, call.facts)
        return self._read == diary.count

    def news(self) -> tuple[list[Json], set[str]]:
        """The newest calls since the last time, for the page, and the transactions they are about."""
        calls, touched = [picture.call(one, one.facts) for one in self._new], self._touched
        self._new.clear()
        self._touched = set()
        return calls, touched

    def _follow(self, call: RecordedCall, facts: Facts) -> None:
        if call.undone:
            return
        if facts.operation == "access" and call.status == 402 and not _proofs(call):
            self._unclaimed.append(call)
        if facts.transaction is None:
            return
        if facts.operation == "access" and facts.transaction not in self._calls:
            self._claim(call, facts.transaction)
        self._calls.setdefault(facts.transaction, deque(maxlen=_OF_ONE)).append((call.number, call.fault))
        self._touched.add(facts.transaction)
        while len(self._calls) > KEPT:
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            self._asked.pop(oldest, None)

    def _claim(self, call: RecordedCall, transaction: str) -> None:
        for asked in reversed(self._unclaimed):
            if asked.request.body == call.request.body:
                self._unclaimed.remove(asked)
                self._asked[transaction] = {"number": asked.number, "at": asked.at.isoformat()}
                return


def _proofs(call: RecordedCall) -> list[str]:
    return header_values(call.request.headers, "payment-signature")
