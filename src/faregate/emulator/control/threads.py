"""Which calls belong to which transaction, and the 402 that came before it. Pure.

The first call of a purchase names neither payer nor transaction. The one taken for it is the newest 402
for the same resource that no other purchase claims.
"""

from collections import deque
from itertools import dropwhile
from typing import Any, Final

from faregate.emulator.control import picture
from faregate.emulator.diary import Diary, RecordedCall
from faregate.emulator.facts import Facts
from faregate.merchant.types import Environment
from faregate.model import header_values

SHOWN: Final = 300
"""Calls that a page begins with."""
KEPT: Final = 1_000
"""Transactions whose calls are remembered, and unclaimed 402s."""
_OF_ONE: Final = 50

Json = dict[str, Any]


class Threads:
    """Reads the diary on, from where it was last."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._read = 0
        self._calls: dict[str, deque[int]] = {}
        self._asked: dict[str, Json] = {}
        self._unclaimed: deque[RecordedCall] = deque(maxlen=KEPT)

    def go_on(self, diary: Diary) -> bool:
        """False if the diary began anew."""
        return diary.count >= self._read

    def of(self, transaction: str) -> tuple[Json | None, list[int]]:
        """Its 402 and the numbers of its calls, oldest first."""
        return self._asked.get(transaction), list(self._calls.get(transaction, ()))

    def read(self, diary: Diary) -> tuple[list[Json], set[str]]:
        """The calls since the last time as the page shows them, and the transactions they are about."""
        entries: list[Json] = []
        touched: set[str] = set()
        for call in self._since(diary):
            facts = call.facts
            if (facts.environment or "test") == self._environment:
                entries.append(picture.call(call, facts))
                self._follow(call, facts)
                touched.update(() if facts.transaction is None else (facts.transaction,))
        return entries, touched

    def _since(self, diary: Diary) -> list[RecordedCall]:
        first = max(self._read, diary.count - SHOWN)
        if self._read == diary.count:
            return []
        self._read = diary.count
        return list(dropwhile(lambda call: call.number <= first, diary))

    def _follow(self, call: RecordedCall, facts: Facts) -> None:
        if facts.operation == "access" and call.status == 402 and not _proofs(call):
            self._unclaimed.append(call)
        if facts.transaction is None:
            return
        if facts.operation == "access" and facts.transaction not in self._calls:
            self._claim(call, facts.transaction)
        self._calls.setdefault(facts.transaction, deque(maxlen=_OF_ONE)).append(call.number)
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
