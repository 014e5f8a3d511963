"""Which succeeded payments are in safe blocks, and which the chain has lost again.

A payment is read again until its block is safe. The row of an account has one moment: every payment that
succeeded before it was checked. A payment that the chain has lost is called loose. It has a row of its own,
which ends when the payment has settled in a safe block, or when it is certain that it never will.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from sqlalchemy import BigInteger, Integer, bindparam, func, select, update

from faregate.service.database.clock import ACCOUNT
from faregate.service.database.engine import Database, Inserts
from faregate.service.database.payment_rows import SELECT_PAYMENT, PaymentRow
from faregate.service.database.schema import accounts, checked_payments, loose_payments
from faregate.service.database.transactions import T
from faregate.service.database.types import to_datetime

_L: Final = loose_payments.c
_NOW: Final = bindparam("now", type_=BigInteger())
_LATEST: Final = (
    select(func.max(T.finished_at))
    .where(T.account == accounts.c.id, T.final_status == "succeeded", T.from_block.is_not(None))
    .scalar_subquery()
)
_LIST_ACCOUNTS: Final = select(
    accounts.c.id, _LATEST.label("latest"), func.coalesce(checked_payments.c.until, 0).label("until")
).outerjoin(checked_payments, checked_payments.c.account == accounts.c.id)
_LIST: Final = (
    SELECT_PAYMENT.where(
        T.account == ACCOUNT,
        T.finished_at >= bindparam("until", type_=BigInteger()),
        T.final_status == "succeeded",
        T.from_block.is_not(None),
        # A loose payment is watched by its own row.
        _L.account.is_(None),
    )
    .order_by(T.finished_at)
    .limit(bindparam("most", type_=Integer()))
)
_ADVANCE: Final = Inserts(
    checked_payments,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["account"],
        set_={"until": insert.excluded.until},
        where=checked_payments.c.until < insert.excluded.until,
    ),
)
_NOTICE: Final = Inserts(
    loose_payments,
    lambda insert: insert.on_conflict_do_nothing().returning(loose_payments.c.account),
)
_DUE: Final = (
    select(_L.account, _L.transaction)
    .where(_L.ended_at.is_(None), _L.next_attempt_at <= _NOW)
    .order_by(_L.next_attempt_at)
    .limit(bindparam("most", type_=Integer()))
)
_OF_LOOSE: Final = (_L.account == ACCOUNT) & (_L.transaction == bindparam("of_transaction"))
_NEXT: Final = bindparam("next", type_=BigInteger())
_LEASE: Final = (
    update(loose_payments)
    .where(_OF_LOOSE, _L.ended_at.is_(None), _L.next_attempt_at <= _NOW)
    .values(next_attempt_at=_NEXT)
    .returning(_L.account)
)
_POSTPONE: Final = (
    update(loose_payments).where(_OF_LOOSE, _L.ended_at.is_(None)).values(next_attempt_at=_NEXT)
)
_END: Final = (
    update(loose_payments)
    .where(_OF_LOOSE, _L.ended_at.is_(None))
    .values(ended_at=_NOW, next_attempt_at=None, transaction_hash=bindparam("settled_by"))
)
_COUNT: Final = select(_L.ended_at.is_(None), _L.transaction_hash.is_(None), func.count()).group_by(
    _L.ended_at.is_(None), _L.transaction_hash.is_(None)
)
_FIND: Final = select(_L.noticed_at, _L.ended_at, _L.transaction_hash).where(_OF_LOOSE)

LooseState = Literal["open", "settled", "lost"]


@dataclass(frozen=True, slots=True)
class Unchecked:
    """An account, and the moment up to which its succeeded payments were checked."""

    account: int
    until: int


@dataclass(frozen=True, slots=True)
class LoosePayment:
    """A payment whose transfer the chain lost. Open: it is sent again while its authorization is valid.

    It was `noticed` and `ended` at these microseconds since 1970.
    """

    noticed: int
    ended: int | None
    transaction_hash: str | None

    @property
    def state(self) -> LooseState:
        if self.ended is None:
            return "open"
        return "lost" if self.transaction_hash is None else "settled"


@dataclass(frozen=True, slots=True)
class ReorgSummary:
    """How many payments came loose, and since when succeeded payments wait to be checked."""

    open: int
    settled: int
    lost: int
    unchecked_since: datetime | None


def list_unchecked(database: Database) -> list[Unchecked]:
    """List the accounts with succeeded payments that were not checked yet."""
    with database.read() as connection:
        rows = connection.execute(_LIST_ACCOUNTS).all()
    return [
        Unchecked(row.id, row.until) for row in rows if row.latest is not None and row.latest >= row.until
    ]


def list_unchecked_payments(database: Database, unchecked: Unchecked, most: int) -> list[PaymentRow]:
    """List the succeeded payments of an account that were not checked yet, the earliest first."""
    keys = {"of_account": unchecked.account, "until": unchecked.until, "most": most}
    with database.read() as connection:
        return [PaymentRow(**row) for row in connection.execute(_LIST, keys).mappings()]


def record_checked(database: Database, account: int, until: int) -> None:
    """Record that every payment that succeeded before `until` was checked. The moment never goes back."""
    with database.write_statement() as connection:
        connection.execute(_ADVANCE.get(connection), {"account": account, "until": until})


def record_loose(
    database: Database, payment: PaymentRow, now: int, *, ended: bool = False, settled_by: str | None = None
) -> bool:
    """Record that the chain has lost the transaction of a payment; False if that was recorded before.

    With `ended`, no more attempts follow: another transaction settled the payment (`settled_by`), or none
    will.
    """
    row = {
        "account": payment.account,
        "transaction": payment.id,
        "noticed_at": now,
        "next_attempt_at": None if ended else now,
        "ended_at": now if ended else None,
        "transaction_hash": settled_by,
    }
    with database.write_statement() as connection:
        return connection.execute(_NOTICE.get(connection), row).first() is not None


def find_due(database: Database, now: int, most: int) -> Sequence[tuple[int, str]]:
    """Find loose payments whose next attempt is due: the account and the id of each."""
    with database.read() as connection:
        rows = connection.execute(_DUE, {"now": now, "most": most}).all()
    return [(row.account, row.transaction) for row in rows]


def lease(database: Database, account: int, transaction_id: str, now: int, until: int) -> bool:
    """Lease a loose payment that is due, until this moment; False if another process has it."""
    keys = {**_name(account, transaction_id), "now": now, "next": until}
    with database.write_statement() as connection:
        return connection.execute(_LEASE, keys).first() is not None


def postpone(database: Database, account: int, transaction_id: str, again: int) -> None:
    """Let the next attempt of a loose payment begin at this moment."""
    with database.write_statement() as connection:
        connection.execute(_POSTPONE, {**_name(account, transaction_id), "next": again})


def end(database: Database, account: int, transaction_id: str, now: int, settled_by: str | None) -> None:
    """End a loose payment: `settled_by` is its transaction, in a safe block; None if it never settles."""
    with database.write_statement() as connection:
        connection.execute(_END, {**_name(account, transaction_id), "now": now, "settled_by": settled_by})


def find_loose(database: Database, account: int, transaction_id: str) -> LoosePayment | None:
    """Find what became of a payment that the chain had lost; None if it never was."""
    with database.read() as connection:
        row = connection.execute(_FIND, _name(account, transaction_id)).one_or_none()
    return None if row is None else LoosePayment(*row)


def summarize_reorgs(database: Database) -> ReorgSummary:
    """Count the payments that came loose, by state, and find since when succeeded payments wait."""
    with database.read() as connection:
        counts = {
            (bool(is_open), bool(is_null)): count for is_open, is_null, count in connection.execute(_COUNT)
        }
    since = _find_earliest(database, list_unchecked(database))
    is_open = counts.get((True, True), 0) + counts.get((True, False), 0)
    return ReorgSummary(is_open, counts.get((False, False), 0), counts.get((False, True), 0), since)


def _find_earliest(database: Database, waiting: Iterable[Unchecked]) -> datetime | None:
    times = [
        payment.finished_at
        for account in waiting
        for payment in list_unchecked_payments(database, account, 1)
        if payment.finished_at is not None
    ]
    return to_datetime(min(times)) if times else None


def _name(account: int, transaction_id: str) -> dict[str, Any]:
    return {"of_account": account, "of_transaction": transaction_id}
