"""The memory journal as a value: to be kept, compared, and taken up again.

Times are kept as what is left of them, and only as far as it makes a difference: so that states which no
flow could tell apart are one state.
"""

from collections.abc import Iterator
from dataclasses import fields
from hashlib import sha256
from typing import Any

from faregate.journals.durations import JournalPolicy
from faregate.journals.memory import MemoryJournal
from faregate.journals.row_rules import Row, size_of
from faregate.journals.states import RowState
from tests.model.invariants import TransactionState

NOW = 1_000_000.0
LEASE = 100.0
LONG = 1000.0
HORIZON = 10_000.0
TERMS = JournalPolicy(
    claim_lease=LEASE,
    completion_lease=40.0,
    initial_backoff=10.0,
    max_backoff=10.0,
    undelivered_retention=LONG,
    redelivery_window=LONG,
    redeliveries=1,
    failed_retention=LONG,
    max_age=HORIZON,
)
FIELDS = tuple(field.name for field in fields(Row))
AT = {name: place for place, name in enumerate(FIELDS)}
PEPPER = b"pepper"
Frozen = tuple[tuple[Any, ...], ...]
"""One tuple per row, its fields in the order of `Row`."""


def freeze(journal: MemoryJournal) -> Frozen:
    return tuple(_frozen(row) for row in sorted(journal._rows.read_all(), key=lambda row: row.key))


def _frozen(row: Row) -> tuple[Any, ...]:
    changed = {
        "since": NOW if row.since > NOW - HORIZON else NOW - HORIZON,
        "lease_until": NOW + LEASE if row.lease_until > NOW else NOW,
        "due_at": NOW + LEASE if row.due_at > NOW else NOW,
        "generation": min(row.generation, 2),
        "holds_so_far": 0,
    }
    return tuple(changed.get(name, getattr(row, name)) for name in FIELDS)


def thaw(frozen: Frozen, fences: Iterator[int]) -> MemoryJournal:
    journal = MemoryJournal(clock=lambda: NOW, policy=TERMS)
    journal._pepper = PEPPER
    journal._fences = fences  # type: ignore[assignment]
    for values in frozen:
        row = Row(*values)
        journal._rows[row.key] = row
        journal._bytes += size_of(row.outcome)
        if row.transaction_id:
            journal._transactions[row.transaction_id] = row.key
        if row.expires_at is None:
            journal._owed[row.key] = row
        if row.state is RowState.PAID_NO_RESULT and row.delivered:
            journal._remembered[row.key] = None
        journal._note_authorization(row)
        journal._note_purchase(row)
        journal._note_expiry(row)
    return journal


def jumped(frozen: Frozen, far: bool) -> Frozen:
    """Past every lease; `far` is past everything, the horizon too."""
    return tuple(_older(values, far) for values in frozen)


def _older(values: tuple[Any, ...], far: bool) -> tuple[Any, ...]:
    row = list(values)
    row[AT["lease_until"]] = row[AT["due_at"]] = NOW
    expires = row[AT["expires_at"]]
    if expires is not None and (far or row[AT["state"]] is RowState.CLAIMED):
        row[AT["expires_at"]] = NOW if far else max(NOW, expires - LEASE)
    if far:
        row[AT["since"]] = NOW - HORIZON
    return tuple(row)


def key_of(proof: str) -> bytes:
    return sha256(PEPPER + proof.encode()).digest()


def row_of(frozen: Frozen, transaction_id: str) -> tuple[Any, ...] | None:
    return next((row for row in frozen if row[AT["transaction_id"]] == transaction_id), None)


def standing_of(frozen: Frozen, transaction_id: str, proof: str) -> TransactionState:
    row = row_of(frozen, transaction_id)
    if row is None:
        return TransactionState.NOBODYS
    return TransactionState.OWN if row[AT["key"]] == key_of(proof) else TransactionState.OTHERS


def was_taken_under_lease(before: Frozen, after: Frozen) -> bool:
    """Whoever releases a result has its row from then on, whoever had it before."""
    fences = {row[AT["key"]]: row[AT["fence"]] for row in after if row[AT["state"]] is not RowState.SETTLED}
    return any(
        row[AT["lease_until"]] > NOW and fences.get(row[AT["key"]], row[AT["fence"]]) != row[AT["fence"]]
        for row in before
    )


def is_spent(row: tuple[Any, ...] | None) -> bool:
    """Whether its result was delivered as often as it may be, or was dropped in its time."""
    if row is None:
        return False
    was_settled = row[AT["forget_at"]] is not None
    dropped = row[AT["state"]] is RowState.PAID_NO_RESULT and was_settled
    return dropped or row[AT["redelivered"]] >= TERMS.redeliveries


def is_owed(row: tuple[Any, ...] | None) -> bool:
    return row is not None and row[AT["expires_at"]] is None
