"""How payments end, told from outside: rules for the coming ones, `settle` and `fail` for those open now.

The most special rule wins: of the transaction, its payer, its resource, or of all. Pure; each call is
about one environment, and what has fallen due by then has happened before it.
"""

import re
from dataclasses import replace
from typing import Final

from faregate.errors import ConfigurationError
from faregate.merchant.types import ID_TAIL
from faregate.service import settlement as settling
from faregate.service.config import Settlement
from faregate.service.records import PENDING, TransactionRecord
from faregate.service.state import EnvironmentState

ALL: Final = "*"
_TRANSACTION: Final = re.compile(f"txn_{ID_TAIL}", re.ASCII)
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)


def settle_after(store: EnvironmentState, target: str, settlement: Settlement | None) -> None:
    """From now on the payments of `target` end so; None takes the rule back.

    `target` is a transaction's id, a payer's address, a resource's key or `*`. A transaction may still
    be open for the seller's work; if it is already settling, its measure begins anew. Others that are
    already settling keep the rule they began with. `ConfigurationError` if it is not known or already final.
    """
    _settle_due(store)
    if target == ALL:
        store.settlement = settlement
    elif _ADDRESS.fullmatch(target):
        _set_payer_rule(store, target.lower(), settlement)
    elif _TRANSACTION.fullmatch(target):
        _set_transaction_rule(store, _find_open(store, target), settlement)
    elif target in store.catalog.listings:
        store.catalog.put(replace(store.catalog.listings[target], settlement=settlement))
    else:
        raise ConfigurationError(
            f"{target!r} is no resource here; give its key, a transaction's id, a payer's address or '*'"
        )


def is_address(target: str) -> bool:
    return _ADDRESS.fullmatch(target) is not None


def has_target(store: EnvironmentState, target: str) -> bool:
    """Whether this environment has the target; it has everything, and every address."""
    return (
        target == ALL
        or _ADDRESS.fullmatch(target) is not None
        or target in store.transactions
        or target in store.catalog.listings
    )


def settle(store: EnvironmentState, transaction_id: str) -> None:
    """Takes the payment of a pending transaction now, whatever its rule; it fails if it cannot be taken.

    `ConfigurationError` if there is no such transaction, it is already final, or not completed by the seller.
    """
    _settle_due(store)
    record = _find_open(store, transaction_id)
    if record.status not in PENDING:
        raise ConfigurationError(
            f"the seller has not completed {transaction_id} yet: settle_after says how it will end"
        )
    settling.finish(store, record, settling.IMMEDIATE, store.clock.tick())


def fail(store: EnvironmentState, transaction_id: str) -> None:
    """The payment of a transaction will never be taken. One that is only authorized fails as well.

    The seller's complete is then answered 200 with `failed`. `ConfigurationError` if there is no such
    transaction or it is already final.
    """
    _settle_due(store)
    settling.fail_payment(store, _find_open(store, transaction_id), store.clock.tick())


def _settle_due(store: EnvironmentState) -> None:
    settling.settle_due(store, store.clock.now())


def _find_open(store: EnvironmentState, transaction_id: str) -> TransactionRecord:
    record = store.transactions.get(transaction_id)
    if record is None:
        raise ConfigurationError(f"there is no transaction {transaction_id!r}")
    if record.status not in ("authorized", *PENDING):
        raise ConfigurationError(f"{transaction_id} has already {record.status}")
    return record


def _set_payer_rule(store: EnvironmentState, payer: str, settlement: Settlement | None) -> None:
    if settlement is None:
        store.payer_settlements.pop(payer, None)
    else:
        store.payer_settlements[payer] = settlement


def _set_transaction_rule(
    store: EnvironmentState, record: TransactionRecord, settlement: Settlement | None
) -> None:
    record.plan = settlement
    if record.status in PENDING:
        settling.unschedule(store, record)
        settling.schedule(store, record, settling.find_settlement_rule(store, record), store.clock.tick())
