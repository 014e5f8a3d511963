"""`faregate service reconcile`: compare the books with the chain. It sends nothing and changes no payment."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from faregate.errors import ConfigurationError
from faregate.rules.payments import (
    PaymentRefused,
    PaymentSettled,
    PaymentsUnavailable,
    SettlementPending,
    SettlementResult,
)
from faregate.rules.records import FINAL, Transaction
from faregate.service.database.payment_rows import record_reconciliation
from faregate.service.database.reports import list_pending_payments
from faregate.service.database.sql_store import SqlStore
from faregate.service.payment_chain import PaymentChain
from faregate.service.reconciliation import Difference, Reconciler
from faregate.service.runtime import Runtime, open_runtime
from faregate.service.settings import read_settings
from faregate.system import system_clock

DAYS: Final = 7
"""How far back all payments are compared by default."""
DIFFERENT: Final = 1
INCOMPLETE: Final = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """One payment in the books and on the chain. `is_different`: a person must find out why."""

    transaction: str
    books: str
    chain: str
    is_different: bool

    def __str__(self) -> str:
        mark = "DIFFERENT" if self.is_different else "ok"
        return f"{mark:<10}{self.transaction}: {self.books} in the books; {self.chain}"


def run_reconcile(arguments: Namespace) -> int:
    """Print each difference, and the sums; return 1 if a payment differs, 3 if the chain cannot be read."""
    settings = read_settings(arguments)
    since = None if arguments.all else _parse_since(arguments.since)
    with open_runtime(settings) as runtime:
        if arguments.id is not None:
            comparison = _compare_one(runtime, arguments.id)
            _print(comparison, as_json=arguments.json)
            return DIFFERENT if comparison.is_different else 0
        if settings.payments == "simulated":
            raise ConfigurationError(
                "Payments are simulated, so there is no chain to compare them with: set payments to "
                "facilitator or direct."
            )
        try:
            return _compare_all(runtime, since, as_json=arguments.json)
        except PaymentsUnavailable as error:
            print(f"faregate: not everything was compared: {error}", file=sys.stderr)
            return INCOMPLETE


def _parse_since(text: str | None) -> datetime:
    """Read a date or a time, in UTC unless it says otherwise; without one, some days ago."""
    if text is None:
        return system_clock() - timedelta(days=DAYS)
    try:
        since = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"--since {text}: write a date or a time, such as 2026-11-30.") from None
    return since if since.tzinfo else since.replace(tzinfo=UTC)


def _compare_all(runtime: Runtime, since: datetime | None, *, as_json: bool) -> int:
    is_equal = True
    for environment, payments in runtime.payments.items():
        stores = [store for store in runtime.accounts.open_stores() if store.environment == environment]
        for compared in _compare_open(runtime, stores):
            is_equal = is_equal and not compared.is_different
            _print(compared, as_json=as_json)
        chain = PaymentChain(payments, stores)
        comparison = Reconciler(runtime.storage.database, chain).compare(since)
        while True:
            try:
                _print(next(comparison), as_json=as_json)
            except StopIteration as end:
                result = end.value
                break
        kept = {**result.describe(), "named": [asdict(difference) for difference in result.named]}
        record_reconciliation(runtime.storage.database, environment, system_clock(), kept)
        is_equal = is_equal and result.is_equal
        print(json.dumps(result.describe()) if as_json else result, flush=True)
    return 0 if is_equal else DIFFERENT


def _compare_open(runtime: Runtime, stores: list[SqlStore]) -> Iterator[Comparison]:
    for store in stores:
        for transaction_id in list_pending_payments(runtime.storage.database, store.account.id):
            comparison = _look(runtime, store, transaction_id)
            if comparison is not None:
                yield comparison


def _compare_one(runtime: Runtime, transaction_id: str) -> Comparison:
    for store in runtime.accounts.open_stores():
        comparison = _look(runtime, store, transaction_id)
        if comparison is not None:
            return comparison
    raise ConfigurationError(f"There is no transaction {transaction_id} in this database.")


def _look(runtime: Runtime, store: SqlStore, transaction_id: str) -> Comparison | None:
    transaction = store.find_transaction(transaction_id)
    if transaction is None:
        return None
    attempt = store.read_attempt(transaction)
    payments = runtime.accounts.build_dependencies(store).payments
    return compare(transaction, payments.look(transaction.payment, transaction.context.terms, attempt))


def _print(outcome: Comparison | Difference, *, as_json: bool) -> None:
    fields: dict[str, Any] = asdict(outcome)
    print(json.dumps(fields) if as_json else outcome, flush=True)


def compare(transaction: Transaction, seen: SettlementResult) -> Comparison:
    """Compare a payment with what its chain proves."""
    books = transaction.status
    match seen:
        case PaymentSettled(transaction_hash=settled_by):
            chain = f"settled on the chain by {settled_by}"
        case PaymentRefused(reason=reason):
            chain = f"can never settle: {reason}"
        case SettlementPending():
            chain = "not proven by the chain"
    return Comparison(transaction.id, books, chain, _is_different(transaction, seen))


def _is_different(transaction: Transaction, seen: SettlementResult) -> bool:
    settled = transaction.settled
    if settled is not None:
        return not isinstance(seen, PaymentSettled) or seen.transaction_hash != settled.transaction_hash
    # What is open will be ended by a worker. What was called failed must never have been charged.
    return isinstance(seen, PaymentSettled) and (
        transaction.status in FINAL or transaction.submitted_at is None
    )
