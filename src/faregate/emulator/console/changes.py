"""Find what changed in a tenant since a page last asked. Pure.

When nothing happened, this compares only a few numbers. A page gets the newest transactions and calls; of all
others it gets sums. A state that is older than the page is read in pieces, so that no look at it takes long.
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
from faregate.rules.app import Service
from faregate.rules.memory_store import MemoryStore
from faregate.rules.records import FINAL, PayerRecord, TransactionRecord, get_settled_amount
from faregate.x402.tokens import Environment

SHOWN_TRANSACTIONS: Final = 200
"""Transactions that a page gets."""
TRANSACTIONS_PER_READ: Final = 2_000
SHOWN_CALLS: Final = 300
"""Calls that a page gets at first."""
CALLS_PER_READ: Final = 500
SHOWN_PAYERS: Final = 40
"""Payers that a page gets: the last ones that paid."""
MAX_GROUPS: Final = 1_000
"""Transactions whose calls are remembered, and 402s that no payment followed yet."""
MAX_CALLS_PER_GROUP: Final = 50

Json = dict[str, Any]
NumberedFault = tuple[int, str | None]
"""The number of a call, and the name of the fault that affected it."""


class TransactionHistory:
    """All transactions from the first one. `histogram` counts those that ended."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.histogram = Histogram()
        self.shown: deque[TransactionRecord] = deque(maxlen=SHOWN_TRANSACTIONS)
        self._read_count = 0
        self._unfinished: dict[str, TransactionRecord] = {}
        self._counts: dict[str, int] = {}
        self._versions: dict[str, tuple[object, ...]] = {}

    def is_valid(self, store: MemoryStore) -> bool:
        """Return False after a reset or a restore: another store, or transactions that were undone."""
        if store is not self.store or len(store.transactions) < self._read_count:
            return False
        return all(store.transactions.get(record.id) is record for record in list(self.shown)[-1:])

    def read(self, now: datetime) -> bool:
        """Read the next piece. Return False if there is more."""
        first = self._read_count
        records = self.store.index.between(first, first + TRANSACTIONS_PER_READ, now)
        self._read_count += len(records)
        self.shown.extend(records)
        self._unfinished.update((record.id, record) for record in records)
        self._count_finished(views.count_by_status(self.store, now), bool(records))
        return len(records) < TRANSACTIONS_PER_READ

    def pop_changed(self) -> list[TransactionRecord]:
        """Return the shown transactions that changed since the last time."""
        versions = {record.id: _get_version(record) for record in self.shown}
        changed = [record for record in self.shown if self._versions.get(record.id) != versions[record.id]]
        self._versions = versions
        return changed

    def select_shown(self, identifiers: Iterable[str]) -> list[TransactionRecord]:
        """Return those of these transactions that are shown."""
        return [
            self.store.transactions[identifier] for identifier in identifiers if identifier in self._versions
        ]

    def _count_finished(self, counts: dict[str, int], has_new: bool) -> None:
        # A status cannot change without changing the counts, so equal counts need no search.
        if counts == self._counts and not has_new:
            return
        self._counts = counts
        for record in [record for record in self._unfinished.values() if record.status in FINAL]:
            del self._unfinished[record.id]
            amount = None if record.settled is None else get_settled_amount(record)
            self.histogram.add(record.history[-1][0], record.context.terms.token.symbol, amount)


def _get_version(record: TransactionRecord) -> tuple[object, ...]:
    return len(record.history), record.reads, record.plan, record.accepted is None


class CallGroups:
    """Groups the recorded calls by transaction, reading on from where it stopped."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._last_number = 0
        self._new: deque[RecordedCall] = deque(maxlen=SHOWN_CALLS)
        self._touched: set[str] = set()
        self._calls: dict[str, deque[NumberedFault]] = {}
        self._challenges: dict[str, Json] = {}
        self._unpaid: deque[RecordedCall] = deque(maxlen=MAX_GROUPS)

    def is_valid(self, log: CallLog) -> bool:
        """Return False if the record of calls was cleared."""
        return log.count >= self._last_number

    def get(self, transaction: str) -> tuple[Json | None, list[NumberedFault]]:
        """Return the transaction's 402 and its calls, oldest first."""
        return self._challenges.get(transaction), list(self._calls.get(transaction, ()))

    def read(self, log: CallLog) -> bool:
        """Read the next piece. Return False if there is more."""
        if self._last_number == log.count:
            return True
        for call in islice(dropwhile(lambda call: call.number <= self._last_number, log), CALLS_PER_READ):
            self._last_number = call.number
            if (call.info.environment or "test") == self._environment:
                self._new.append(call)
                self._assign(call, call.info)
        return self._last_number == log.count

    def pop_new(self) -> tuple[list[Json], set[str]]:
        """Return the calls since the last time, formatted, and the transactions they belong to."""
        calls, touched = [views.format_call(call, call.info) for call in self._new], self._touched
        self._new.clear()
        self._touched = set()
        return calls, touched

    def _assign(self, call: RecordedCall, info: CallInfo) -> None:
        # Undone by a restore: its transaction does not exist any more.
        if call.undone:
            return
        if info.operation == "access" and call.status == 402 and not _has_proof(call):
            self._unpaid.append(call)
        if info.transaction is None:
            return
        if info.operation == "access" and info.transaction not in self._calls:
            self._assign_challenge(call, info.transaction)
        group = self._calls.setdefault(info.transaction, deque(maxlen=MAX_CALLS_PER_GROUP))
        group.append((call.number, call.fault))
        self._touched.add(info.transaction)
        while len(self._calls) > MAX_GROUPS:
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            self._challenges.pop(oldest, None)

    def _assign_challenge(self, call: RecordedCall, transaction: str) -> None:
        """Find the 402 that this payment answers: the newest unpaid one to an equal request."""
        for unpaid in reversed(self._unpaid):
            if unpaid.request.body == call.request.body:
                self._unpaid.remove(unpaid)
                self._challenges[transaction] = {"number": unpaid.number, "at": unpaid.at.isoformat()}
                return


def _has_proof(call: RecordedCall) -> bool:
    return bool(header_values(call.request.headers, "payment-signature"))


class ChangeTracker:
    """The state of one environment of a tenant as one page last got it."""

    def __init__(self, environment: Environment) -> None:
        self._environment: Environment = environment
        self._history: TransactionHistory | None = None
        self._groups = CallGroups(environment)
        self._sent: Json = {}

    def find_changes(self, service: Service, log: CallLog) -> Json | None:
        """Return the parts that changed; None if there is more to read first: call again.

        `whole` is among them if everything sent before is void: at first, and after a reset or a restore.
        """
        history = self._get_history(service.environments[self._environment], log)
        now = history.store.clock.now()
        if not (history.read(now) and self._groups.read(log)):
            return None
        whole = {} if self._sent else {"whole": True}
        parts = {**_format_parts(history, now), "about": _format_account(service, self._environment)}
        return {**whole, **self._find_new_entries(history), **self.filter_changed(parts)}

    def filter_changed(self, parts: Json) -> Json:
        """Return the parts that differ from what was sent last, and note them as sent."""
        changed = {name: value for name, value in parts.items() if self._sent.get(name) != value}
        self._sent.update(changed)
        return changed

    def _get_history(self, store: MemoryStore, log: CallLog) -> TransactionHistory:
        if self._history is None or not (self._history.is_valid(store) and self._groups.is_valid(log)):
            self._history, self._groups = TransactionHistory(store), CallGroups(self._environment)
            self._sent = {}
        return self._history

    def _find_new_entries(self, history: TransactionHistory) -> Json:
        calls, touched = self._groups.pop_new()
        changed = {record.id: record for record in (*history.pop_changed(), *history.select_shown(touched))}
        records = sorted(changed.values(), key=lambda record: record.number)
        transactions = [views.format_transaction(record, *self._groups.get(record.id)) for record in records]
        entries = {"transactions": transactions, "calls": calls}
        return {name: values for name, values in entries.items() if values}


def _format_parts(history: TransactionHistory, now: datetime) -> Json:
    store = history.store
    return {
        "counts": views.count_by_status(store, now),
        "money": views.format_money(history.histogram),
        "payers": [views.format_payer(store, payer, now) for payer in _find_latest_payers(history)],
        "resources": views.format_resources(store, now),
        "rules": views.format_rules(store),
    }


def _format_account(service: Service, environment: Environment) -> Json:
    # A test key may be shown, because it is made for that. A live key never is.
    keys = [key.key for key in service.keys.values() if key.environment == environment == "test"]
    return {"environment": environment, "key": next(iter(keys), None), "live": service.allow_live}


def _find_latest_payers(history: TransactionHistory) -> list[PayerRecord]:
    payers: dict[str, PayerRecord] = {}
    for record in reversed(history.shown):
        payers.setdefault(record.payer.id, record.payer)
        if len(payers) == SHOWN_PAYERS:
            break
    return list(payers.values())
