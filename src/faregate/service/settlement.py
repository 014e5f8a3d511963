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


def submit(books: EnvironmentState, record: TransactionRecord) -> None:
    """The seller's work is done: take the payment, or begin to. One that was made to fail stays failed."""
    if record.status != "authorized":
        return
    at = books.timeline.stamp()
    record.submitted_at = at
    if at.timestamp() >= record.payment.valid_before:
        fail_payment(books, record, at)
    else:
        schedule(books, record, find_settlement_rule(books, record), at)


def schedule(books: EnvironmentState, record: TransactionRecord, plan: Settlement, at: datetime) -> None:
    """From `at` on the submitted payment ends as `plan` says."""
    due = _get_due_time(record, plan, at)
    if plan.after_reads == 0 or (due is not None and due <= at):
        finish(books, record, plan, at)
        return
    record.plan, record.reads = plan, 0
    record.move(plan.via, at)
    if due is not None:
        heapq.heappush(books.due, (due, record.number, record))


def unschedule(books: EnvironmentState, record: TransactionRecord) -> None:
    """The clock alone no longer ends it. Walks over all that wait for the clock."""
    books.due = [entry for entry in books.due if entry[2] is not record]
    heapq.heapify(books.due)


def find_settlement_rule(books: EnvironmentState, record: TransactionRecord) -> Settlement:
    """The most special rule: of the transaction, its payer, its resource, or of all."""
    payers = books.payer_settlements.get(record.payment.payer)
    listing = books.catalog.listings[record.sale.listing.plan.key]
    return record.plan or payers or listing.settlement or books.settlement or IMMEDIATE


def fail_payment(books: EnvironmentState, record: TransactionRecord, at: datetime) -> None:
    """The payment will not be taken; what it held is free again, its authorization stays used."""
    record.plan = None
    record.move("failed", at)
    books.holds.release(record)


def count_read(books: EnvironmentState, record: TransactionRecord) -> None:
    """The seller looks at the transaction: this alone may settle it."""
    if record.status not in PENDING:
        return
    plan = record.plan
    if plan is None:
        finish(books, record, IMMEDIATE, books.timeline.stamp())
    elif plan.after_reads is not None:
        record.reads += 1
        if record.reads >= plan.after_reads:
            finish(books, record, plan, books.timeline.stamp())


def settle_due(books: EnvironmentState, now: datetime) -> None:
    """Settles what has fallen due; done before every call, so that every snapshot agrees."""
    books.holds.expire(now)
    while books.due and books.due[0][0] <= now:
        due, _, record = heapq.heappop(books.due)
        if record.plan is not None:
            finish(books, record, record.plan, due)


def _get_due_time(record: TransactionRecord, plan: Settlement, at: datetime) -> datetime | None:
    """When the clock alone ends it."""
    if plan.after_seconds is not None:
        return at + timedelta(seconds=plan.after_seconds)
    if plan.until_expiry:
        return datetime.fromtimestamp(min(record.payment.valid_before, _LAST_SECOND), UTC)
    return None


def finish(books: EnvironmentState, record: TransactionRecord, plan: Settlement, at: datetime) -> None:
    """The plan is over: fail, or ask the payments. Not known yet, or no answer: asked again at each read."""
    record.plan = None
    outcome = (
        PaymentRefused("this settlement fails") if plan.to == "failed" else _call_facilitator(books, record)
    )
    if isinstance(outcome, PaymentPending):
        record.move(outcome.status, at)
    elif isinstance(outcome, Paid):
        record.settled = build_settlement_record(books, record, outcome.transaction_hash, at)
        record.move("succeeded", at)
        books.holds.release(record)
    else:
        fail_payment(books, record, at)


def _call_facilitator(
    books: EnvironmentState, record: TransactionRecord
) -> Paid | PaymentRefused | PaymentPending:
    try:
        return books.payments.settle(
            record.payment, record.sale.terms, now=record.submitted_at or record.created_at
        )
    except Exception:  # whatever it was, whether the money moved is unknown
        _log.exception("settling %s gave no answer", record.id)
        return PaymentPending("reconciling")
