"""The signed transfers of a gas account, of all sellers' accounts, by gas nonce: for their upkeep."""

from typing import Any, Final

from sqlalchemy import BigInteger, String, bindparam, or_, select, tuple_, update

from faregate.rules.payments import SignedTransfer
from faregate.service.database.attempts import describe_transfer
from faregate.service.database.engine import Database
from faregate.service.database.schema import attempts, transactions

_A: Final = attempts.c
_OF_GAS_ACCOUNT: Final = (_A.chain == bindparam("on_chain", type_=BigInteger())) & (
    _A.sender == bindparam("of_sender", type_=String())
)
_HAS_ENDED: Final = (
    select(transactions.c.id)
    .where(
        transactions.c.account == _A.account,
        transactions.c.id == _A.transaction,
        transactions.c.finished_at.is_not(None),
    )
    .exists()
)
_LIST: Final = (
    select(_A.sender, _A.chain, _A.gas_nonce, _A.raw, _A.transaction_hash, _A.replaces, _A.signed_at)
    .where(_OF_GAS_ACCOUNT, _A.gas_nonce >= bindparam("from_nonce", type_=BigInteger()))
    # The replacements of a transfer have its gas nonce, and are in later attempts of its payment.
    .order_by(_A.gas_nonce, _A.number.desc())
    .limit(bindparam("most"))
)
_IS_REPLACED: Final = (
    _OF_GAS_ACCOUNT
    & (_A.gas_nonce == bindparam("of_nonce", type_=BigInteger()))
    & (_A.transaction_hash == bindparam("old_hash", type_=String()))
)
_AT: Final = bindparam("at", type_=BigInteger())
_REPLACE: Final = update(attempts).where(_IS_REPLACED, _HAS_ENDED).returning(_A.number)
_HASTEN: Final = (
    update(transactions)
    .where(
        tuple_(transactions.c.account, transactions.c.id).in_(
            select(_A.account, _A.transaction).where(_IS_REPLACED)
        ),
        transactions.c.finished_at.is_(None),
        or_(transactions.c.next_attempt_at > _AT, transactions.c.parked_at.is_not(None)),
    )
    # Parked or not: later transfers of the gas account wait for this one.
    .values(next_attempt_at=_AT, parked_at=None)
)
_REPLACEMENTS: Final = 8
"""How many transfers of one gas nonce are expected; more are only looked at later."""


class SqlTransfers:
    """The signed transfers in a database, as `faregate.service.chain.direct.upkeep.TransferStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list_transfers(
        self, sender: str, chain: int, from_nonce: int, limit: int
    ) -> tuple[SignedTransfer, ...]:
        """List the latest transfer of each gas nonce from `from_nonce`, the lowest first."""
        values = {**_name(sender, chain), "from_nonce": from_nonce, "most": limit * _REPLACEMENTS}
        with self._database.read() as connection:
            rows = connection.execute(_LIST, values).mappings().all()
        latest: dict[int, SignedTransfer] = {}
        for row in rows:
            latest.setdefault(row["gas_nonce"], SignedTransfer(**row))
        return tuple(latest.values())[:limit]

    def replace_transfer(self, transfer: SignedTransfer) -> bool:
        """Write a transfer over the one that it replaces, if the payment of that has ended.

        The attempts of an open payment replace its transfer themselves, and keep the hash of every one. So
        its next attempt becomes due at once instead, also if it is parked.
        """
        keys = {
            **_name(transfer.sender, transfer.chain),
            "of_nonce": transfer.gas_nonce,
            "old_hash": transfer.replaces,
        }
        with self._database.write() as connection:
            if connection.execute(_REPLACE.values(describe_transfer(transfer)), keys).first() is not None:
                return True
            connection.execute(_HASTEN, {**keys, "at": transfer.signed_at * 1_000_000})
            return False


def _name(sender: str, chain: int) -> dict[str, Any]:
    return {"on_chain": chain, "of_sender": sender.lower()}
