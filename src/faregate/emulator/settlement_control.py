"""Control settlement in a test: rules for future payments, `settle` and `fail` for open ones.

This module sets the rules. `MemoryStore.find_settlement_rule` picks one for a payment, and what it does is in
`rules/settlement.py`.

The most specific rule wins: of the transaction, its payer, its resource, or the general one. Each call
concerns one environment, and settles first what is due.
"""

import re
from dataclasses import replace
from typing import Final

from faregate.errors import ConfigurationError
from faregate.merchant.formats import ID_TAIL
from faregate.rules import settlement as settling
from faregate.rules.account import SettlementRule, find_address_fault
from faregate.rules.memory_store import MemoryStore
from faregate.rules.records import PENDING, TransactionRecord

ALL: Final = "*"
_TRANSACTION: Final = re.compile(f"txn_{ID_TAIL}", re.ASCII)
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)


def settle_after(store: MemoryStore, target: str, settlement: SettlementRule | None) -> None:
    """Set how payments of `target` settle from now on; None removes the rule.

    `target` is a transaction id, a payer's address, a resource key or `*`. For a transaction that is already
    settling the rule starts again; other payments that are settling keep theirs. `ConfigurationError` if the
    target is unknown or final.
    """
    _settle_due(store)
    if target == ALL:
        store.settlement = settlement
    elif _ADDRESS.fullmatch(target):
        if (fault := find_address_fault(target)) is not None:
            raise ConfigurationError(f"{target!r} {fault}")
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


def has_target(store: MemoryStore, target: str) -> bool:
    """Whether this environment knows the target; `*` and addresses are known everywhere."""
    return (
        target == ALL
        or _ADDRESS.fullmatch(target) is not None
        or target in store.transactions
        or target in store.catalog.listings
    )


def settle(store: MemoryStore, transaction_id: str) -> None:
    """Settle a pending transaction now, and not when its rule would. The amount of the rule holds.

    It fails if it cannot be paid.

    `ConfigurationError` if it is unknown, final, or not yet completed by the seller.
    """
    _settle_due(store)
    record = _find_open(store, transaction_id)
    if record.status not in PENDING:
        raise ConfigurationError(
            f"the seller has not completed {transaction_id} yet: settle_after says how it will end"
        )
    faulty_amount = None if record.plan is None else record.plan.amount
    rule = settling.IMMEDIATE.model_copy(update={"amount": faulty_amount})
    deps = replace(store.deps, accepts_less=True)
    settling.settle(record, deps, rule, store.clock.tick())


def fail(store: MemoryStore, transaction_id: str) -> None:
    """Let the payment of a transaction fail, even if it is only authorized.

    The seller's complete is then answered 200 `failed`. `ConfigurationError` if it is unknown or final.
    """
    _settle_due(store)
    store.record_failed(_find_open(store, transaction_id), None)


def _settle_due(store: MemoryStore) -> None:
    settling.settle_due(store.clock.now(), store.deps)


def _find_open(store: MemoryStore, transaction_id: str) -> TransactionRecord:
    record = store.transactions.get(transaction_id)
    if record is None:
        raise ConfigurationError(f"there is no transaction {transaction_id!r}")
    if record.status not in ("authorized", *PENDING):
        raise ConfigurationError(f"{transaction_id} has already {record.status}")
    return record


def _set_payer_rule(store: MemoryStore, payer: str, settlement: SettlementRule | None) -> None:
    if settlement is None:
        store.payer_settlements.pop(payer, None)
    else:
        store.payer_settlements[payer] = settlement


def _set_transaction_rule(
    store: MemoryStore, record: TransactionRecord, settlement: SettlementRule | None
) -> None:
    record.plan = settlement
    if record.status in PENDING:
        store.unschedule(record)
        # The transaction's own rule may be gone now: then the next in rank applies.
        rule = store.find_settlement_rule(record) or settling.IMMEDIATE
        settling.schedule(record, store.deps, rule, store.clock.tick())
