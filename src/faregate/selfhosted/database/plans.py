"""Simulated payments: by which rule they settle, and what waits for time or for reads."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, String, bindparam, func, select, update

from faregate.selfhosted.database.clock import ACCOUNT, STAMP
from faregate.selfhosted.database.schema import simulated_rules, transactions
from faregate.selfhosted.database.simulated import DEFAULT
from faregate.selfhosted.database.transactions import CHANGING, OF_ID, StoredTransaction, T, read_row
from faregate.service.config import SettlementRule

_FIND: Final = select(simulated_rules.c.target, simulated_rules.c.rule).where(
    simulated_rules.c.account == ACCOUNT,
    simulated_rules.c.target.in_((bindparam("payer", type_=String()), DEFAULT)),
)
_SCHEDULE: Final = (
    update(transactions)
    .where(OF_ID, T.finished_at.is_(None))
    .values(plan=bindparam("rule"), reads=0, next_attempt_at=bindparam("due", type_=BigInteger()))
    .returning(*CHANGING)
)
_SCHEDULE_VIA: Final = {
    "settling": _SCHEDULE.values(settling_at=func.coalesce(T.settling_at, STAMP)),
    "reconciling": _SCHEDULE.values(reconciling_at=func.coalesce(T.reconciling_at, STAMP)),
}
_COUNT_READ: Final = (
    update(transactions)
    .where(OF_ID, T.finished_at.is_(None), T.plan.is_not(None))
    .values(reads=T.reads + 1)
    .returning(T.reads)
)
_UNTIL: Final = bindparam("until", type_=BigInteger())
_WAITS: Final = (T.account == ACCOUNT) & (T.next_attempt_at <= _UNTIL) & T.plan.is_not(None)
_HAS_DUE: Final = select(T.id).where(_WAITS).limit(1)
_FIND_DUE: Final = (
    select(T.id, T.next_attempt_at)
    .where(_WAITS)
    .order_by(T.next_attempt_at, T.created_at, T.id)
    .with_for_update(skip_locked=True)
)
_TAKE_DUE: Final = (
    update(transactions).where(OF_ID).values(next_attempt_at=bindparam("again", type_=BigInteger()))
)


def find_rules(connection: Connection, account: int, payer: str) -> Mapping[str, SettlementRule]:
    """Find the rules of this payer (lower case) and the default, by their targets."""
    found = connection.execute(_FIND, {"of_account": account, "payer": payer})
    return {target: SettlementRule.model_validate_json(rule) for target, rule in found}


def schedule(
    connection: Connection, known: StoredTransaction, rule: SettlementRule, values: dict[str, Any]
) -> StoredTransaction | None:
    """Let the payment wait; None if it has ended. `values`: account, now, due."""
    keys = {**values, "of_transaction": known.id, "rule": rule.model_dump_json()}
    row = read_row(connection.execute(_SCHEDULE_VIA[rule.via], keys))
    return None if row is None else known.with_change(row)


def count_read(connection: Connection, account: int, known: StoredTransaction) -> int | None:
    """Count a read of a payment that waits; None if it does not wait any more."""
    keys = {"of_account": account, "of_transaction": known.id}
    return connection.execute(_COUNT_READ, keys).scalar_one_or_none()


def has_due(connection: Connection, account: int, until: int) -> bool:
    return connection.execute(_HAS_DUE, {"of_account": account, "until": until}).one_or_none() is not None


def take_due(connection: Connection, account: int, until: int, again: int) -> dict[str, int]:
    """Take the payments that are due, by their ids with their times; due `again` if nobody settles them."""
    due = {
        row.id: row.next_attempt_at
        for row in connection.execute(_FIND_DUE, {"of_account": account, "until": until})
    }
    for transaction in due:
        connection.execute(_TAKE_DUE, {"of_account": account, "of_transaction": transaction, "again": again})
    return due
