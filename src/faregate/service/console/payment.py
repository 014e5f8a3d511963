"""One payment: how it went, every attempt to settle it, and why it has not ended."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from faregate.rules.records import PENDING
from faregate.service.console.layout import ROOT, Viewer, describe_time_span, render_page
from faregate.service.console.lists import format_amount
from faregate.service.database.attempts import AttemptRecord
from faregate.service.database.refunds import Refund, sum_refunds
from faregate.service.database.reorg_records import LoosePayment
from faregate.service.database.transactions import StoredTransaction
from faregate.service.database.types import to_datetime
from faregate.x402.tokens import format_price

MOST_ATTEMPTS: Final = 200


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of a payment, and how long after the one before it; "" for the first."""

    at: datetime
    name: str
    after: str


def show_payment(
    viewer: Viewer,
    payment: StoredTransaction,
    attempts: Sequence[AttemptRecord],
    loose: LoosePayment | None,
    refunds: Sequence[Refund],
    now: datetime,
) -> bytes:
    """Show one payment as it is now. `loose` is what became of it after the chain had lost it."""
    terms, settled = payment.context.terms, payment.settled
    kept = [refund for refund in refunds if refund.is_kept]
    return render_page(
        viewer,
        "payment.html",
        f"{ROOT}/payments",
        f"Payment of {format_amount(payment)}",
        payment=payment,
        expires_at=to_datetime(payment.row["expires_at"]),
        attempts=attempts,
        answered=next((attempt for attempt in attempts if attempt.note), None),
        next_step=_describe_next_step(payment, now),
        loose=loose,
        refunds=[_describe_refund(refund) for refund in kept],
        refunded=format_price(sum_refunds(kept), terms.token.symbol) if kept else None,
        timeline=_list_moments(payment),
        receipt=None if settled is None else _format_receipt(settled.receipt_json),
    )


def _describe_refund(refund: Refund) -> dict[str, Any]:
    return {
        "recorded_at": to_datetime(refund.recorded_at),
        "price": format_price(refund.amount, refund.symbol),
        "sender": refund.sender,
        "hash": refund.transaction_hash,
    }


def _describe_next_step(payment: StoredTransaction, now: datetime) -> str | None:
    """Say what a pending payment waits for; None if it is not pending."""
    if payment.status not in PENDING:
        return None
    lease, due = payment.row["lease_until"], payment.row["next_attempt_at"]
    if lease is not None and to_datetime(lease) > now:
        after = _describe_when(to_datetime(lease), now)
        return f"An attempt is under way; if nothing is heard of it, another begins {after}."
    if due is not None:
        return f"The next attempt begins {_describe_when(to_datetime(due), now)}."
    return "It settles when its rule says so: the payment is simulated."


def _describe_when(moment: datetime, now: datetime) -> str:
    return f"in {describe_time_span(moment - now)}" if moment > now else "as soon as a worker is free"


def _list_moments(payment: StoredTransaction) -> list[Moment]:
    row = payment.row
    times = [
        ("authorized", row["created_at"]),
        ("completed by the seller", row["submitted_at"]),
        ("settling", row["settling_at"]),
        ("reconciling", row["reconciling_at"]),
        (row["final_status"], row["finished_at"]),
    ]
    reached = sorted(
        ((to_datetime(at), name) for name, at in times if at is not None), key=lambda moment: moment[0]
    )
    earlier = [None, *(at for at, _ in reached)]
    return [
        Moment(at, name, "" if before is None else _describe_seconds(at, before))
        for (at, name), before in zip(reached, earlier, strict=False)
    ]


def _describe_seconds(later: datetime, earlier: datetime) -> str:
    seconds = (later - earlier).total_seconds()
    return f"{seconds:.3f} s" if seconds < 60 else describe_time_span(later - earlier)


def _format_receipt(receipt_json: str) -> str:
    return json.dumps(json.loads(receipt_json), indent=2, ensure_ascii=False)
