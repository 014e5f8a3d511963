"""Refunds: transfers that sellers made back to payers, recorded by an operator after a look at the chain.

A refund changes nothing of its payment: the Merchant API does not know of it. A record that was wrong is
marked as removed, and stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final

from sqlalchemy import BigInteger, bindparam, insert, select, update

from faregate.errors import ConfigurationError
from faregate.service.chain.received_transfers import ReceivedTransfer
from faregate.service.database.clock import ACCOUNT
from faregate.service.database.engine import Database
from faregate.service.database.schema import refunds, transactions
from faregate.service.database.transactions import OF_ID, T
from faregate.service.database.types import to_datetime
from faregate.x402.tokens import TOKENS

_R: Final = refunds.c
_OF_PAYMENT: Final = (_R.account == ACCOUNT) & (_R.transaction == bindparam("of_transaction"))
_IS_KEPT: Final = _R.removed_at.is_(None)


@dataclass(frozen=True, slots=True)
class Refund:
    """A recorded refund of `amount` atomic units. Addresses and hashes are in lower case, times microseconds.

    `position` counts from 1 among the transfers of the token to the payer in the transaction.
    """

    account: int
    transaction: str
    number: int
    asset: str
    sender: str
    payer: str
    amount: int
    transaction_hash: str
    position: int
    recorded_at: int
    removed_at: int | None

    @property
    def is_kept(self) -> bool:
        return self.removed_at is None

    @property
    def symbol(self) -> str:
        """The token's symbol, or its address if it is none of ours."""
        symbols = (token.symbol for token in TOKENS.values() if token.address.lower() == self.asset)
        return next(symbols, self.asset)

    def describe(self) -> dict[str, Any]:
        """Return the refund for JSON."""
        return {
            "transaction": self.transaction,
            "transaction_hash": self.transaction_hash,
            "transfer": self.position,
            "from": self.sender,
            "to": self.payer,
            "asset": self.symbol,
            # Text: readers of JSON would round what is long.
            "amount_atomic": str(self.amount),
            "recorded_at": to_datetime(self.recorded_at).isoformat(),
            "removed_at": None if self.removed_at is None else to_datetime(self.removed_at).isoformat(),
        }

    def is_made_by(self, transfer: ReceivedTransfer) -> bool:
        """Return whether this is the transfer that was recorded."""
        made = (transfer.asset, transfer.sender, transfer.to, transfer.value, transfer.transaction_hash)
        return made == (self.asset, self.sender, self.payer, self.amount, self.transaction_hash)


_COLUMNS: Final = tuple(_R[column.name] for column in fields(Refund))
# Locks the payment: no other refund of it is recorded between this look and the commit.
_LOCK: Final = select(T.id).where(OF_ID).with_for_update()
_LIST_OF_PAYMENT: Final = select(*_COLUMNS).where(_OF_PAYMENT).order_by(_R.number)
_LIST: Final = (
    select(*_COLUMNS)
    .where(
        _R.account.in_(bindparam("accounts", expanding=True)),
        _R.recorded_at >= bindparam("recorded", type_=BigInteger()),
    )
    .order_by(_R.recorded_at, _R.account, _R.transaction, _R.number)
)
_LIST_OF_SALES: Final = (
    select(*_COLUMNS)
    .join(transactions, (T.account == _R.account) & (T.id == _R.transaction))
    .where(
        _R.account == ACCOUNT,
        _R.recorded_at >= bindparam("recorded", type_=BigInteger()),
        T.final_status == "succeeded",
        _IS_KEPT,
    )
)
_FIND_USE: Final = (
    select(_R.transaction)
    .where(
        _R.asset == bindparam("asset"),
        _R.payer == bindparam("payer"),
        _R.transaction_hash == bindparam("transaction_hash"),
        _R.position == bindparam("position"),
    )
    .where(_IS_KEPT)
)
_REMOVE: Final = (
    update(refunds)
    .where(_OF_PAYMENT, _R.transaction_hash == bindparam("of_hash"), _IS_KEPT)
    .values(removed_at=bindparam("now", type_=BigInteger()))
    .returning(_R.number)
)


def record_refund(
    database: Database,
    payment: tuple[int, str],
    transfer: ReceivedTransfer,
    position: int,
    settled: int,
    now: int,
) -> Refund:
    """Record this transfer as a refund of a payment (its account and id) of which `settled` was received.

    Raises `ConfigurationError` if the transfer is recorded, or is more than what was not refunded yet.
    """
    account, transaction = payment
    keys = {"of_account": account, "of_transaction": transaction}
    with database.write() as connection:
        connection.execute(_LOCK, keys)
        earlier = [Refund(*row) for row in connection.execute(_LIST_OF_PAYMENT, keys)]
        row: dict[str, Any] = {
            "account": account,
            "transaction": transaction,
            "number": len(earlier) + 1,
            "asset": transfer.asset,
            "sender": transfer.sender,
            "payer": transfer.to,
            "amount": transfer.value,
            "transaction_hash": transfer.transaction_hash,
            "position": position,
            "recorded_at": now,
        }
        used = connection.execute(_FIND_USE, row).scalar_one_or_none()
        if used is not None:
            raise ConfigurationError(f"This transfer is recorded as a refund of {used} already.")
        refundable = settled - sum_refunds(earlier)
        if transfer.value > refundable:
            raise ConfigurationError(
                f"The transfer of {transfer.value} is more than what can be refunded of {transaction}: "
                f"{refundable} of {settled} atomic units."
            )
        connection.execute(insert(refunds), row)
    return Refund(**row, removed_at=None)


def remove_refund(
    database: Database, account: int, transaction: str, transaction_hash: str, now: int
) -> bool:
    """Mark the refunds of this payment by the transaction `found` as removed; return whether any were."""
    keys = {"of_account": account, "of_transaction": transaction, "of_hash": transaction_hash, "now": now}
    with database.write() as connection:
        return bool(connection.execute(_REMOVE, keys).all())


def list_refunds_of(database: Database, account: int, transaction: str) -> list[Refund]:
    """List the refunds of one payment, those that were removed too."""
    with database.read() as connection:
        keys = {"of_account": account, "of_transaction": transaction}
        return [Refund(*row) for row in connection.execute(_LIST_OF_PAYMENT, keys)]


def list_refunds(database: Database, accounts: Iterable[int], recorded_from: int = 0) -> list[Refund]:
    """List the refunds of these accounts that were recorded from this moment on, oldest first."""
    with database.read() as connection:
        keys = {"accounts": list(accounts), "recorded": recorded_from}
        return [Refund(*row) for row in connection.execute(_LIST, keys)]


def list_refunds_of_sales(database: Database, account: int, recorded_from: int) -> list[Refund]:
    """List the refunds of what succeeded, recorded from this moment on and not removed.

    A refund of a payment that failed and was charged all the same takes nothing from what was earned.
    """
    with database.read() as connection:
        keys = {"of_account": account, "recorded": recorded_from}
        return [Refund(*row) for row in connection.execute(_LIST_OF_SALES, keys)]


def sum_refunds(refunds: Iterable[Refund]) -> int:
    """Sum the refunds that were not removed, in atomic units."""
    return sum(refund.amount for refund in refunds if refund.is_kept)
