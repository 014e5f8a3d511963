"""`faregate service payment show | retry | park`: one payment, by hand. Only the chain ends it."""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from faregate.errors import ConfigurationError
from faregate.rules.records import FINAL
from faregate.rules.settlement import IMMEDIATE, settle
from faregate.service.database.attempts import MAX_NOTE, AttemptRecord, list_attempts
from faregate.service.database.refunds import list_refunds_of, sum_refunds
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.store_options import Shared
from faregate.service.database.transactions import StoredTransaction
from faregate.service.database.types import to_datetime
from faregate.service.runtime import open_runtime
from faregate.service.settings import read_settings
from faregate.service.storage import Storage, open_storage
from faregate.system import random_challenge, random_id

_MOST_ATTEMPTS: Final = 1_000
Json = dict[str, Any]


def run_show(arguments: Namespace) -> int:
    """Print everything that the books say of the payment."""
    with open_storage(read_settings(arguments)) as storage:
        store, stored = find_stored_payment(storage, arguments.id)
        _print(_describe(storage, store, stored), arguments)
    return 0


def run_park(arguments: Namespace) -> int:
    """Stop the attempts to settle the payment, and keep the reason."""
    reason = str(arguments.reason).strip()
    if not 0 < len(reason) <= MAX_NOTE or "\0" in reason:
        raise ConfigurationError(f"--reason must be a text of 1 to {MAX_NOTE} characters.")
    with open_storage(read_settings(arguments)) as storage:
        store, stored = find_stored_payment(storage, arguments.id)
        parked = store.park(stored, reason)
        if parked is None:
            raise ConfigurationError(_explain_refusal(store.find_transaction(stored.id) or stored))
        _print(_describe(storage, store, parked), arguments)
    return 0


def run_retry(arguments: Namespace) -> int:
    """Attempt to settle the payment now, parked or not.

    With `--accept-less`, take it for what was settled, although more was used.
    """
    settings = read_settings(arguments)
    with open_runtime(settings) as runtime:
        store, stored = find_stored_payment(runtime.storage, arguments.id)
        served = runtime.accounts.open_store(store.account)
        if served is None:
            raise ConfigurationError(
                f"{stored.id} is a {store.environment} payment: set payments and rpc_{store.environment} as "
                "`faregate service serve` has them."
            )
        due = served.unpark(stored)
        if due is None:
            raise ConfigurationError(_explain_refusal(served.find_transaction(stored.id) or stored))
        deps = replace(runtime.accounts.build_dependencies(served), accepts_less=arguments.accept_less)
        settle(due, deps, stored.plan or IMMEDIATE)
        latest = store.find_transaction(stored.id) or stored
        _print(_describe(runtime.storage, store, latest), arguments)
    return 0


def find_stored_payment(storage: Storage, transaction_id: str) -> tuple[SqlStore, StoredTransaction]:
    """Find the payment of any account, also of an environment that is not served."""
    shared = Shared(storage.database, storage.stamps, random_id, random_challenge)
    for account in storage.list_accounts():
        store = SqlStore(shared, account)
        stored = store.find_transaction(transaction_id)
        if stored is not None:
            return store, stored
    raise ConfigurationError(f"There is no transaction {transaction_id} in {storage.database.name}.")


def _explain_refusal(stored: StoredTransaction) -> str:
    if stored.status in FINAL:
        return f"{stored.id} has ended: {stored.status}."
    if stored.submitted_at is None:
        return f"{stored.id} is only authorized: nothing is attempted before its seller reports success."
    return f"{stored.id} is parked already: `faregate service payment retry {stored.id}` attempts it again."


def _describe(storage: Storage, store: SqlStore, stored: StoredTransaction) -> Json:
    """Describe the payment: the columns shown here hold no secrets."""
    row, context, payment = stored.row, stored.context, stored.payment
    attempts = list_attempts(storage.database, store.account.id, stored.id, _MOST_ATTEMPTS)
    refunds = list_refunds_of(storage.database, store.account.id, stored.id)
    return {
        "id": stored.id,
        "status": stored.status,
        "parked": stored.parked is not None,
        "parked_at": _to_time(row["parked_at"]),
        "parked_reason": row["parked_reason"],
        "seller": store.seller_name,
        "environment": store.environment,
        "payer": stored.payer.identifier,
        "pay_to": context.terms.pay_to,
        "amount_atomic": str(context.terms.amount),
        # With a fixed price, the amount is what is settled.
        **({} if stored.used_atomic is None else {"used_atomic": str(stored.used_atomic)}),
        "asset": context.terms.token.symbol,
        "network": context.terms.token.network,
        "nonce": payment.nonce,
        "valid_after": str(payment.valid_after),
        "valid_before": str(payment.valid_before),
        "resource": context.listing.resource.key,
        "revision": context.revision.id,
        "url": context.request.resource.url,
        **{name: _to_time(row[name]) for name in _MOMENTS},
        "reported": None if row["outcome"] is None else json.loads(row["outcome"]),
        "transaction_hash": row["transaction_hash"],
        "receipt": None if row["receipt"] is None else json.loads(row["receipt"]),
        "refunded_atomic": str(sum_refunds(refunds)) if refunds else None,
        "refunds": [refund.describe() for refund in refunds],
        "attempts": [_describe_attempt(attempt) for attempt in attempts],
    }


_MOMENTS: Final = (
    "created_at",
    "submitted_at",
    "settling_at",
    "reconciling_at",
    "finished_at",
    "next_attempt_at",
    "lease_until",
)


def _describe_attempt(attempt: AttemptRecord) -> Json:
    return {
        "number": attempt.number,
        "started_at": attempt.started_at.isoformat(),
        "answer": attempt.note,
        "transaction_hash": attempt.transaction_hash,
        "gas_account": attempt.sender,
        "gas_nonce": attempt.gas_nonce,
    }


def _to_time(moment: int | None) -> str | None:
    time: datetime | None = None if moment is None else to_datetime(moment)
    return None if time is None else time.isoformat()


def _print(described: Json, arguments: Namespace) -> None:
    if arguments.json:
        print(json.dumps(described))
    else:
        print("\n".join(_write_lines(described)))


def _write_lines(described: Mapping[str, Any]) -> Iterator[str]:
    parts = {"refund": described["refunds"], "attempt": described["attempts"]}
    for name, value in described.items():
        if name not in ("refunds", "attempts") and value is not None:
            yield f"{name:<17}{_write(value)}"
    for title, described_parts in parts.items():
        for part in described_parts:
            fields = ", ".join(f"{name} {_write(value)}" for name, value in part.items() if value is not None)
            yield f"{title:<17}{fields}"


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
