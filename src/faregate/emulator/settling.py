"""How an accepted payment ends: at once, by the clock, or after some reads. Pure.

A read is a GET of the transaction or a repeated complete; it counts before it is answered.
"""

import heapq
import logging
from datetime import datetime, timedelta

from faregate.emulator.books import Books
from faregate.emulator.goods import Settlement
from faregate.emulator.payments import Pending, Refused
from faregate.emulator.payments import Settled as Paid
from faregate.emulator.receipts import settled
from faregate.emulator.state import PENDING, TransactionRecord

_log = logging.getLogger("faregate.emulator")
_AT_ONCE = Settlement(after_reads=0)


def submit(books: Books, record: TransactionRecord) -> None:
    """The seller's work is done: take the payment, or begin to."""
    at = books.timeline.stamp()
    record.submitted_at = at
    plan = _plan(books, record)
    if at.timestamp() >= record.payment.valid_before:
        fail(books, record, at)
    elif plan.after_reads == 0 or plan.after_seconds == 0:
        _finish(books, record, plan, at)
    else:
        record.plan = plan
        record.move(plan.via, at)
        if plan.after_seconds is not None:
            due = at + timedelta(seconds=plan.after_seconds)
            heapq.heappush(books.due, (due, record.number, record))


def fail(books: Books, record: TransactionRecord, at: datetime) -> None:
    """The payment will not be taken; what it held is free again, its authorization stays used."""
    record.move("failed", at)
    books.holds.release(record)


def read(books: Books, record: TransactionRecord) -> None:
    """The seller looks at the transaction: this alone may settle it."""
    if record.status not in PENDING:
        return
    plan = record.plan
    if plan is None:
        _finish(books, record, _AT_ONCE, books.timeline.stamp())
    elif plan.after_reads is not None:
        record.reads += 1
        if record.reads >= plan.after_reads:
            _finish(books, record, plan, books.timeline.stamp())


def advance(books: Books, now: datetime) -> None:
    """Settles what has fallen due; done before every call, so that every snapshot agrees."""
    books.holds.expire(now)
    while books.due and books.due[0][0] <= now:
        due, _, record = heapq.heappop(books.due)
        if record.plan is not None:
            _finish(books, record, record.plan, due)


def _plan(books: Books, record: TransactionRecord) -> Settlement:
    own = books.payer_settlements.get(record.payment.payer)
    listing = books.catalog.listings[record.sale.listing.plan.key]
    return own or listing.settlement or _AT_ONCE


def _finish(books: Books, record: TransactionRecord, plan: Settlement, at: datetime) -> None:
    """The plan is over: fail, or ask the payments. Not known yet, or no answer: asked again at each read."""
    record.plan = None
    outcome = Refused("this settlement fails") if plan.to == "failed" else _ask(books, record)
    if isinstance(outcome, Pending):
        record.move(outcome.status, at)
    elif isinstance(outcome, Paid):
        record.settled = settled(books, record, outcome.transaction_hash, at)
        record.move("succeeded", at)
        books.holds.release(record)
    else:
        fail(books, record, at)


def _ask(books: Books, record: TransactionRecord) -> Paid | Refused | Pending:
    try:
        return books.payments.settle(
            record.payment, record.sale.terms, now=record.submitted_at or record.created_at
        )
    except Exception:  # whatever it was, whether the money moved is unknown
        _log.exception("settling %s gave no answer", record.id)
        return Pending("reconciling")
