"""Inspect, retry or discard an unfinished payment. No function here releases a result to a payer.

`retry` asks the service once more; the payer gets the result only if a completion proves the payment.
`discard` ends a payment that only a person can end.
"""

import math
import time
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from faregate.core.claim_types import HoldInfo, Lease, PendingPayment
from faregate.core.driver import run
from faregate.core.interfaces import MaybeAwaitable
from faregate.core.recovery import recover
from faregate.core.results import (
    DeliveredElsewhere,
    LeaseLost,
    NothingBegun,
    OpenAfterRejection,
    OtherSellersPayment,
    PaidWithoutResult,
    PaymentFailed,
    PaymentProven,
    Settlement,
    StillSettling,
    StuckPayment,
    Unconfirmed,
)
from faregate.errors import ConfigurationError, FaregateError
from faregate.maintenance.customer_answers import DISCARDED
from faregate.maintenance.journal import JournalView, get_shared_journal
from faregate.paywall import Paywall

STUCK = "stuck"
_LABELS = {"ok": "work done, unsettled", "failed": "work failed", "settled": "paid, not fetched"}
"""Labels for people, for the states whose stored names would mislead or say too little."""


class HoldNotFound(FaregateError):
    """This journal has no unfinished payment of this id, or it cannot be changed now."""


@runtime_checkable
class HoldStore(Protocol):
    """A journal whose holds an operator can inspect and end."""

    def list_holds(self, limit: int) -> list[HoldInfo]: ...

    def get_hold(self, transaction_id: str) -> HoldInfo | None: ...

    def lease_hold(self, transaction_id: str) -> PendingPayment | None: ...

    def end_unreadable(self, transaction_id: str, paid: bool, reason: str) -> bool: ...

    def record_final(self, lease: Lease, paid: bool, reason: str = "") -> MaybeAwaitable[bool]: ...


def get_hold_store(paywall: Paywall) -> HoldStore:
    """Return the paywall's journal. Raises `ConfigurationError` if this process cannot inspect it."""
    journal = get_shared_journal(paywall)
    if not isinstance(journal, HoldStore):
        raise ConfigurationError(
            "This journal cannot be inspected: it lacks the methods list_holds, get_hold, lease_hold and "
            "end_unreadable."
        )
    return journal


def get_hold(store: HoldStore, transaction_id: str) -> HoldInfo:
    """Return the unfinished payment of this transaction. Raises `HoldNotFound` if there is none."""
    hold = store.get_hold(transaction_id)
    if hold is None:
        raise HoldNotFound(
            f"There is no unfinished payment {transaction_id}: it has ended, or this journal never had it."
        )
    return hold


def get_label(hold: HoldInfo) -> str:
    """Return the hold's state in words for people."""
    return _LABELS.get(hold.state, hold.state)


def get_discardable(store: HoldStore, transaction_id: str) -> HoldInfo:
    """Return the payment of this transaction, which only a person can end. Raises `HoldNotFound` otherwise.

    It is stuck, or its journal key is not configured here.
    """
    hold = get_hold(store, transaction_id)
    if hold.state != STUCK and hold.readable:
        raise HoldNotFound(
            f"{transaction_id} is not stuck ({get_label(hold)}): the sweep still works on it. "
            f"To retry it now, use holds retry {transaction_id}."
        )
    return hold


@dataclass(frozen=True, slots=True)
class RetryResult:
    """The result of a retry. `is_closed`: the payment is finished, and its row is no longer a hold."""

    settlement: Settlement
    is_closed: bool

    @property
    def message(self) -> str:
        if self.is_closed:
            return _describe_closed(self.settlement)
        return _describe_kept(self.settlement)


def retry(paywall: Paywall, transaction_id: str) -> RetryResult:
    """Ask the service once more, and complete if that may help. Raises `HoldNotFound`, `JournalError`."""
    store = get_hold_store(paywall)
    get_hold(store, transaction_id)
    settlement = run(recover(paywall.backend, _lease(store, transaction_id), None))
    # Read the row again: the journal may have missed the last write.
    return RetryResult(settlement, store.get_hold(transaction_id) is None)


def _describe_closed(settlement: Settlement) -> str:
    match settlement:
        case PaymentProven():
            return "Settled: its payer gets the result with the same payment."
        case PaymentFailed(code):
            return f"Closed: nothing was charged ({code})."
        case PaidWithoutResult() | DeliveredElsewhere():
            return "Closed: it was paid, and there is no result to deliver."
        case _:
            return "Closed: another process finished it at the same time."


def _describe_kept(settlement: Settlement) -> str:
    match settlement:
        case PaymentProven() | PaidWithoutResult() | DeliveredElsewhere() | PaymentFailed():
            return "It has ended at the service, but the journal could not record that: run this again later."
        case StillSettling() | StuckPayment(StillSettling()):
            return "Kept: the payment is still settling."
        case Unconfirmed() | OpenAfterRejection() | StuckPayment():
            return f"Kept: {settlement.reason}."
        case NothingBegun():
            return "Kept: the payment is still open, and no work was done for it. Its payer may return."
        case OtherSellersPayment():
            return "Kept: it was started with another API key, whose seller must finish it."
        case LeaseLost():
            return "Kept as it was: the journal could not be written, or another process has it."


def discard(store: HoldStore, transaction_id: str, paid: bool) -> None:
    """End a stuck or unreadable payment: the journal remembers it as `paid`, or as not charged.

    Raises `HoldNotFound`.
    """
    if get_discardable(store, transaction_id).readable:
        # Take the lease first: a worker that still has the row can then no longer write it.
        store.record_final(_lease(store, transaction_id).lease, paid, DISCARDED)
    elif not store.end_unreadable(transaction_id, paid, DISCARDED):
        raise _build_leased_error(store, transaction_id)
    if store.get_hold(transaction_id) is not None:
        raise HoldNotFound(f"{transaction_id} is kept: another process changed it at the same time.")


def _lease(store: HoldStore, transaction_id: str) -> PendingPayment:
    """Lease the row with a new fencing token: its previous owner can no longer write it."""
    payment = store.lease_hold(transaction_id)
    if payment is None:
        raise _build_leased_error(store, transaction_id)
    return payment


def _build_leased_error(store: HoldStore, transaction_id: str) -> HoldNotFound:
    seconds = max(0.0, get_hold(store, transaction_id).due_at - time.time())
    return HoldNotFound(
        f"{transaction_id} is being worked on; it is free again in {math.ceil(seconds)} s at the latest."
    )


@dataclass(frozen=True, slots=True)
class HoldList:
    """Unfinished payments, oldest first, by who has to act: a person, the sweep, or none yet.

    `unfetched` are paid results that their payers have not fetched. `is_truncated`: there may be more.
    """

    stuck: list[HoldInfo]
    held: list[HoldInfo]
    running: list[HoldInfo]
    unfetched: list[HoldInfo]
    is_truncated: bool


def list_holds(view: JournalView, limit: int, now: float) -> HoldList:
    """List the oldest unfinished payments at the POSIX time `now`. Raises `FaregateError`."""
    stuck, held, running = list[HoldInfo](), list[HoldInfo](), list[HoldInfo]()
    holds, unfetched = list[HoldInfo](), list[HoldInfo]()
    for reader in view.read_own():
        holds += reader.list_holds(limit)
        unfetched += reader.list_unfetched(limit)
    for hold in holds:
        # Without attempts, a row is still leased by its first request; a `waiting` row has none.
        is_running = hold.state != "waiting" and hold.attempts == 0 and hold.due_at > now
        (stuck if hold.state == STUCK else running if is_running else held).append(hold)
    return HoldList(stuck, held, running, unfetched, max(len(holds), len(unfetched)) >= limit)
