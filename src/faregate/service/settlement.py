"""How an accepted payment ends: at once, by the clock, after some reads, or when it is told to. Pure.

A read is a GET of the transaction or a repeated complete; it counts before it is answered.
"""

import heapq
import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from faregate.service.config import Settlement
from faregate.service.payments import PaymentPending, PaymentRefused
from faregate.service.payments import PaymentSettled as Paid
from faregate.service.receipts import build_settlement_record
from faregate.service.records import PENDING, TransactionRecord
from faregate.service.state import EnvironmentState

_log = logging.getLogger("faregate.emulator")
IMMEDIATE: Final = Settlement(after_reads=0)
_LAST_SECOND: Final = 253_402_300_799


def submit(store: EnvironmentState, record: TransactionRecord) -> None:
    """The seller's work is done: take the payment, or begin to. One that was made to fail stays failed."""
    if record.status != "authorized":
        return
    at = store.clock.tick()
    record.submitted_at = at
    if at.timestamp() >= record.payment.valid_before:
        fail_payment(store, record, at)
    else:
        schedule(store, record, find_settlement_rule(store, record), at)


def schedule(store: EnvironmentState, record: TransactionRecord, plan: Settlement, at: datetime) -> None:
    """From `at` on the submitted payment ends as `plan` says."""
    due = _get_due_time(record, plan, at)
    if plan.after_reads == 0 or (due is not None and due <= at):
        finish(store, record, plan, at)
        return
    record.plan, record.reads = plan, 0
    record.move(plan.via, at)
    if due is not None:
        heapq.heappush(store.due, (due, record.number, record))


def unschedule(store: EnvironmentState, record: TransactionRecord) -> None:
    """The clock alone no longer ends it. Walks over all that wait for the clock."""
    store.due = [entry for entry in store.due if entry[2] is not record]
    heapq.heapify(store.due)


def find_settlement_rule(store: EnvironmentState, record: TransactionRecord) -> Settlement:
    """The most special rule: of the transaction, its payer, its resource, or of all."""
    payers = store.payer_settlements.get(record.payment.payer)
    listing = store.catalog.listings[record.context.listing.resource.key]
    return record.plan or payers or listing.settlement or store.settlement or IMMEDIATE


def fail_payment(store: EnvironmentState, record: TransactionRecord, at: datetime) -> None:
    """The payment will not be taken; what it held is free again, its authorization stays used."""
    record.plan = None
    record.move("failed", at)
    store.reservations.release(record)


def count_read(store: EnvironmentState, record: TransactionRecord) -> None:
    """The seller looks at the transaction: this alone may settle it."""
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
    """Settles what has fallen due; done before every call, so that every snapshot agrees."""
    store.reservations.expire(now)
    while store.due and store.due[0][0] <= now:
        due, _, record = heapq.heappop(store.due)
        if record.plan is not None:
            finish(store, record, record.plan, due)


def _get_due_time(record: TransactionRecord, plan: Settlement, at: datetime) -> datetime | None:
    """When the clock alone ends it."""
    if plan.after_seconds is not None:
        return at + timedelta(seconds=plan.after_seconds)
    if plan.until_expiry:
        return datetime.fromtimestamp(min(record.payment.valid_before, _LAST_SECOND), UTC)
    return None


def finish(store: EnvironmentState, record: TransactionRecord, plan: Settlement, at: datetime) -> None:
    """The plan is over: fail, or ask the payments. Not known yet, or no answer: asked again at each read."""
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
