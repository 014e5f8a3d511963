"""The payments of an account that a person should look at: parked ones, and those that the chain has lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Integer, bindparam, select

from faregate.service.database.clock import ACCOUNT
from faregate.service.database.engine import Database
from faregate.service.database.reorg_records import LooseState
from faregate.service.database.schema import loose_payments
from faregate.service.database.transactions import T
from faregate.service.database.types import to_datetime

_L: Final = loose_payments.c
_MOST: Final = bindparam("most", type_=Integer())
_LIST_PARKED: Final = (
    select(T.id, T.parked_at, T.parked_reason)
    .where(T.account == ACCOUNT, T.parked_at.is_not(None))
    .order_by(T.parked_at.desc(), T.id)
    .limit(_MOST)
)
_LIST_LOOSE: Final = (
    select(_L.transaction, _L.noticed_at, _L.ended_at)
    .where(_L.account == ACCOUNT, _L.transaction_hash.is_(None))
    .order_by(_L.noticed_at.desc(), _L.transaction)
    .limit(_MOST)
)


@dataclass(frozen=True, slots=True)
class ParkedPayment:
    """A payment without further attempts, since when and why."""

    transaction: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class UnsettledLoosePayment:
    """A payment that the chain has lost, and that has not settled again; noticed at a moment."""

    transaction: str
    at: datetime
    state: LooseState


def list_parked(database: Database, account: int, most: int) -> Sequence[ParkedPayment]:
    """List the parked payments of this account, the latest first."""
    with database.read() as connection:
        rows = connection.execute(_LIST_PARKED, {"of_account": account, "most": most}).all()
    return [ParkedPayment(row[0], to_datetime(row[1]), row[2]) for row in rows]


def list_loose(database: Database, account: int, most: int) -> Sequence[UnsettledLoosePayment]:
    """List what the chain has lost of this account and what has not settled after all, the latest first."""
    with database.read() as connection:
        rows = connection.execute(_LIST_LOOSE, {"of_account": account, "most": most}).all()
    return [
        UnsettledLoosePayment(row[0], to_datetime(row[1]), "open" if row[2] is None else "lost")
        for row in rows
    ]
