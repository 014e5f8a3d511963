"""What changed in a world since a page last looked. Pure.

A look at a world in which nothing happened compares a few numbers. A page has the newest transactions and
calls; of the others it knows sums. A world that is older than the page is taken in piece by piece.
"""

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from itertools import dropwhile, islice
from typing import Any, Final

from faregate.core.models import header_values
from faregate.emulator.calls import CallInfo, CallLog, RecordedCall
from faregate.emulator.console import views
from faregate.emulator.console.histogram import Histogram
from faregate.emulator.console.views import build_rules, count_by_status
from faregate.merchant.types import Environment
from faregate.service.app import Service
from faregate.service.records import FINAL, PayerRecord, TransactionRecord
from faregate.service.state import EnvironmentState

SHOWN_TRANSACTIONS: Final = 200
"""Transactions that a page has."""
TRANSACTIONS_PER_STEP: Final = 2_000
"""Transactions that are taken in at one look."""


class TransactionFeed:
    """Begins with the first transaction. `tally` is of all that ended."""

    def __init__(self, books: EnvironmentState) -> None:
        self.books = books
        self.tally = Histogram()
        self.shown: deque[TransactionRecord] = deque(maxlen=SHOWN_TRANSACTIONS)
        self._taken = 0
        self._open: dict[str, TransactionRecord] = {}
        self._counts: dict[str, int] = {}
        self._marks: dict[str, tuple[object, ...]] = {}

    def goes_on(self, books: EnvironmentState) -> bool:
        """False if these are not the books it began with, or a part of it never happened."""
        if books is not self.books or len(books.transactions) < self._taken:
            return False
        return all(books.transactions.get(one.id) is one for one in list(self.shown)[-1:])

    def take_in(self, now: datetime) -> bool:
        """The next piece; False if that was not all."""
        piece = self.books.register.between(self._taken, self._taken + TRANSACTIONS_PER_STEP, now)
        self._taken += len(piece)
        self.shown.extend(piece)
        self._open.update((record.id, record) for record in piece)
        self._close(count_by_status(self.books, now), bool(piece))
        return len(piece) < TRANSACTIONS_PER_STEP

    def moved(self) -> list[TransactionRecord]:
        """Those shown that are not as they were when this was last asked."""
        marks = {record.id: _get_version(record) for record in self.shown}
        found = [record for record in self.shown if self._marks.get(record.id) != marks[record.id]]
        self._marks = marks
        return found

    def shown_of(self, identifiers: Iterable[str]) -> list[TransactionRecord]:
        """Those of these that are shown."""
        return [self.books.transactions[one] for one in identifiers if one in self._marks]

    def _close(self, now: dict[str, int], more: bool) -> None:
        """No status changes without changing how many there are of each."""
        if now == self._counts and not more:
            return
        self._counts = now
        for record in [one for one in self._open.values() if one.status in FINAL]:
            del self._open[record.id]
            terms, settled = record.sale.terms, record.settled is not None
            self.tally.add(record.history[-1][0], terms.token.symbol, terms.amount if settled else None)


def _get_version(record: TransactionRecord) -> tuple[object, ...]:
    return len(record.history), record.reads, record.plan, record.accepted is None


SHOWN_CALLS: Final = 300
"""Calls that a page begins with."""
CALLS_PER_STEP: Final = 500
"""Calls that are read at one look."""
MAX_GROUPS: Final = 1_000
"""Transactions whose calls are remembered, and unclaimed 402s."""

_MAX_CALLS_PER_GROUP: Final = 50

Json = dict[str, Any]
NumberedFault = tuple[int, str | None]
"""The number of a call, and the name of the fault that struck it."""


class CallGroups:
    """Reads all of the diary, and on from where it was last."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._read = 0
        self._new: deque[RecordedCall] = deque(maxlen=SHOWN_CALLS)
        self._touched: set[str] = set()
        self._calls: dict[str, deque[NumberedFault]] = {}
        self._asked: dict[str, Json] = {}
        self._unclaimed: deque[RecordedCall] = deque(maxlen=MAX_GROUPS)

    def go_on(self, diary: CallLog) -> bool:
        """False if the diary began anew."""
        return diary.count >= self._read

    def of(self, transaction: str) -> tuple[Json | None, list[NumberedFault]]:
        """Its 402 and its calls, oldest first."""
        return self._asked.get(transaction), list(self._calls.get(transaction, ()))

    def take_in(self, diary: CallLog) -> bool:
        """The next piece; False if that was not all."""
        if self._read == diary.count:
            return True
        for call in islice(dropwhile(lambda one: one.number <= self._read, diary), CALLS_PER_STEP):
            self._read = call.number
            if (call.facts.environment or "test") == self._environment:
                self._new.append(call)
                self._follow(call, call.facts)
        return self._read == diary.count

    def news(self) -> tuple[list[Json], set[str]]:
        """The newest calls since the last time, for the page, and the transactions they are about."""
        calls, touched = [views.build_call(one, one.facts) for one in self._new], self._touched
        self._new.clear()
        self._touched = set()
        return calls, touched

    def _follow(self, call: RecordedCall, facts: CallInfo) -> None:
        if call.undone:
            return
        if facts.operation == "access" and call.status == 402 and not _get_proofs(call):
            self._unclaimed.append(call)
        if facts.transaction is None:
            return
        if facts.operation == "access" and facts.transaction not in self._calls:
            self._claim(call, facts.transaction)
        self._calls.setdefault(facts.transaction, deque(maxlen=_MAX_CALLS_PER_GROUP)).append(
            (call.number, call.fault)
        )
        self._touched.add(facts.transaction)
        while len(self._calls) > MAX_GROUPS:
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            self._asked.pop(oldest, None)

    def _claim(self, call: RecordedCall, transaction: str) -> None:
        for asked in reversed(self._unclaimed):
            if asked.request.body == call.request.body:
                self._unclaimed.remove(asked)
                self._asked[transaction] = {"number": asked.number, "at": asked.at.isoformat()}
                return


def _get_proofs(call: RecordedCall) -> list[str]:
    return header_values(call.request.headers, "payment-signature")


SHOWN_PAYERS: Final = 40
"""Payers that a page has: those who paid last."""


class ChangeTracker:
    """One page's look at one environment of a world."""

    def __init__(self, environment: Environment) -> None:
        self._environment: Environment = environment
        self._story: TransactionFeed | None = None
        self._threads = CallGroups(environment)
        self._told: Json = {}

    def look(self, service: Service, diary: CallLog) -> Json | None:
        """The parts of the picture that changed; None means that there is more to take in: look again.

        `whole` is there if all that was told before is void: at first, after a reset or a restore.
        """
        story = self._current(service.books[self._environment], diary)
        now = story.books.timeline.now()
        if not (story.take_in(now) and self._threads.take_in(diary)):
            return None
        whole = {} if self._told else {"whole": True}
        parts = {**_build_sections(story, now), "about": _build_about(service, self._environment)}
        return {**whole, **self._news(story), **self.changed(parts)}

    def changed(self, sections: Json) -> Json:
        """Those of these parts that differ from what was told last."""
        found = {name: value for name, value in sections.items() if self._told.get(name) != value}
        self._told.update(found)
        return found

    def _current(self, books: EnvironmentState, diary: CallLog) -> TransactionFeed:
        if self._story is None or not (self._story.goes_on(books) and self._threads.go_on(diary)):
            self._story, self._threads, self._told = TransactionFeed(books), CallGroups(self._environment), {}
        return self._story

    def _news(self, story: TransactionFeed) -> Json:
        calls, touched = self._threads.news()
        moved = {record.id: record for record in (*story.moved(), *story.shown_of(touched))}
        records = sorted(moved.values(), key=lambda one: one.number)
        entries = [views.build_transaction(one, *self._threads.of(one.id)) for one in records]
        news = {"transactions": entries, "calls": calls}
        return {name: found for name, found in news.items() if found}


def _build_sections(story: TransactionFeed, now: datetime) -> Json:
    books = story.books
    return {
        "counts": views.count_by_status(books, now),
        "money": views.build_money(story.tally),
        "payers": [views.build_payer(books, one, now) for one in _list_payers(story)],
        "rules": build_rules(books),
    }


def _build_about(service: Service, environment: Environment) -> Json:
    """Test keys are made to be shown; a live one never is."""
    keys = [key.key for key in service.keys.values() if key.environment == environment == "test"]
    return {"environment": environment, "key": next(iter(keys), None), "live": service.allow_live}


def _list_payers(story: TransactionFeed) -> list[PayerRecord]:
    """Who paid last comes first."""
    found: dict[str, PayerRecord] = {}
    for record in reversed(story.shown):
        found.setdefault(record.payer.id, record.payer)
        if len(found) == SHOWN_PAYERS:
            break
    return list(found.values())
