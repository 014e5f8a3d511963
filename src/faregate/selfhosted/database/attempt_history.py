"""Attempts to settle, as operators see them: what each answered, never what it signed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, select

from faregate.selfhosted.database.clock import ACCOUNT
from faregate.selfhosted.database.engine import Database
from faregate.selfhosted.database.schema import attempts
from faregate.selfhosted.database.types import to_datetime

_LIST: Final = (
    select(
        attempts.c.number,
        attempts.c.started_at,
        attempts.c.note,
        attempts.c.transaction_hash,
        attempts.c.sender,
        attempts.c.gas_nonce,
    )
    .where(attempts.c.account == ACCOUNT, attempts.c.transaction == bindparam("of_transaction"))
    .order_by(attempts.c.number.desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt. `note` is the answer to what was sent, None if there was none.

    `sender` and `gas_nonce` are those of a transfer that the service signed itself.
    """

    number: int
    started_at: datetime
    note: str | None
    transaction_hash: str | None
    sender: str | None
    gas_nonce: int | None


def list_attempts(database: Database, account: int, transaction_id: str, most: int) -> list[AttemptRecord]:
    """List the latest attempts to settle this payment, latest first."""
    keys = {"of_account": account, "of_transaction": transaction_id, "most": most}
    with database.read() as connection:
        rows = connection.execute(_LIST, keys).all()
    return [
        AttemptRecord(
            row.number,
            to_datetime(row.started_at),
            row.note,
            row.transaction_hash,
            row.sender,
            row.gas_nonce,
        )
        for row in rows
    ]
