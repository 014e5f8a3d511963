"""How a completed payment settles: at once, after some time, after some reads, or on command.

A read is a GET of the transaction or a repeated complete. It counts before it is answered.
"""

import heapq
import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from faregate.service.config import SettlementRule
from faregate.service.payments import PaymentPending, PaymentRefused
from faregate.service.payments import PaymentSettled as Paid
from faregate.service.receipts import build_settlement_record
from faregate.service.records import PENDING, TransactionRecord
from faregate.service.state import EnvironmentState

_log = logging.getLogger("faregate.emulator")
IMMEDIATE: Final = SettlementRule(after_reads=0)
_LAST_SECOND: Final = 253_402_300_799


def submit(store: EnvironmentState, record: TransactionRecord) -> None:
    """Start settling after the seller's complete. A payment that was made to fail stays failed."""
    if record.status != "authorized":
        return
    at = store.clock.tick()
    record.submitted_at = at
    if at.timestamp() >= record.payment.valid_before:
        fail_payment(store, record, at)
    else:
        schedule(store, record, find_settlement_rule(store, record), at)


def schedule(store: EnvironmentState, record: TransactionRecord, plan: SettlementRule, at: datetime) -> None:
    """Settle the submitted payment by this rule, starting at `at`."""
    # Due payments settle at once, so that complete is answered 200 and not 202.
    due = _get_due_time(record, plan, at)
    if plan.after_reads == 0 or (due is not None and due <= at):
        finish(store, record, plan, at)
        return
    record.plan, record.reads = plan, 0
    record.move(plan.via, at)
    if due is not None:
        heapq.heappush(store.due, (due, record.number, record))


def unschedule(store: EnvironmentState, record: TransactionRecord) -> None:
    """Stop settling it by time. Scans everything that is scheduled."""
    store.due = [entry for entry in store.due if entry[2] is not record]
    heapq.heapify(store.due)


def find_settlement_rule(store: EnvironmentState, record: TransactionRecord) -> SettlementRule:
    """Find the most specific rule: of the transaction, its payer, its resource, or the general one."""
    payers = store.payer_settlements.get(record.payment.payer)
    listing = store.catalog.listings[record.context.listing.resource.key]
    return record.plan or payers or listing.settlement or store.settlement or IMMEDIATE


def fail_payment(store: EnvironmentState, record: TransactionRecord, at: datetime) -> None:
    """Let the payment fail. Its reservation is released; its authorization stays used."""
    # Without a plan, an entry of this transaction in `due` is skipped when its time comes.
    record.plan = None
    record.move("failed", at)
    store.reservations.release(record)


def count_read(store: EnvironmentState, record: TransactionRecord) -> None:
    """Count a read by the seller, which may settle the payment."""
    if record.status not in PENDING:
        return
    plan = record.plan
    if plan is None:
        finish(store, record, IMMEDIATE, store.clock.tick())
    elif plan.after_reads is not None:
        record.reads += 1
        if record.reads >= plan.after_reads:
            finish(store, record, plan, store.clock.tick())


def settle_due(store: EnvironmentState, now: datetime) -> None:
    """Settle what is due by time. Runs before every request, so that all snapshots agree."""
    store.reservations.expire(now)
    while store.due and store.due[0][0] <= now:
        due, _, record = heapq.heappop(store.due)
        if record.plan is not None:
            # Stamped with the due time, not with now: when a list is read must not change what it shows.
            finish(store, record, record.plan, due)


def _get_due_time(record: TransactionRecord, plan: SettlementRule, at: datetime) -> datetime | None:
    """Return when time alone settles the payment; None for other rules."""
    if plan.after_seconds is not None:
        return at + timedelta(seconds=plan.after_seconds)
    if plan.until_expiry:
        return datetime.fromtimestamp(min(record.payment.valid_before, _LAST_SECOND), UTC)
    return None


def finish(store: EnvironmentState, record: TransactionRecord, plan: SettlementRule, at: datetime) -> None:
    """Apply the end of the rule: fail, or ask the facilitator. An unknown result is asked for again at each
    read.
    """
    record.plan = None
    outcome = (
        PaymentRefused("this settlement fails") if plan.to == "failed" else _call_facilitator(store, record)
    )
    if isinstance(outcome, PaymentPending):
        record.move(outcome.status, at)
    elif isinstance(outcome, Paid):
        record.settled = build_settlement_record(store, record, outcome.transaction_hash, at)
        record.move("succeeded", at)
        store.reservations.release(record)
    else:
        fail_payment(store, record, at)


def _call_facilitator(
    store: EnvironmentState, record: TransactionRecord
) -> Paid | PaymentRefused | PaymentPending:
    try:
        return store.payments.settle(
            record.payment, record.context.terms, now=record.submitted_at or record.created_at
        )
    except Exception:  # whatever it was, whether the money moved is unknown
        _log.exception("settling %s gave no answer", record.id)
        return PaymentPending("reconciling")
