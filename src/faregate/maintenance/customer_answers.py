"""What a seller can answer a customer who says: I paid and got nothing. In words, for each status."""

from datetime import UTC, datetime
from typing import NamedTuple

from faregate.journals.durations import DEFAULT_POLICY
from faregate.journals.payment_info import FoundPayments, PaymentInfo, PaymentStatus, Reference, ReferenceKind
from faregate.journals.row_rules import NOT_FETCHED
from faregate.maintenance.journal import JournalView

_ANSWERS = {
    PaymentStatus.BEING_CHECKED: (
        "The payment has arrived, and the service is being asked about it.",
        "Look again in a minute.",
    ),
    PaymentStatus.NOT_ACCEPTED: (
        "The payment has arrived, and the service has not granted it. No work was done for it.",
        "The payer can send the same payment again, and learns whether it is refused.",
    ),
    PaymentStatus.AUTHORIZED: (
        "The service has authorized the payment. No work was done for it, and nothing is charged for that.",
        "The payer can send the same payment again. Otherwise the sweep reports it as failed.",
    ),
    PaymentStatus.SETTLING: (
        "The payment is still settling, and no work was done for it here.",
        "Do not ask the payer to pay again. To ask the service now: holds retry {id}",
    ),
    PaymentStatus.WORKING: (
        "The work is being done now.",
        "The payer gets the result with the same payment. Do not ask them to pay again.",
    ),
    PaymentStatus.INTERRUPTED: (
        "The work was interrupted: its process ended. There is no result.",
        "The sweep reports it as failed, so that nothing is charged. To do that now: holds retry {id}",
    ),
    PaymentStatus.UNPROVEN: (
        "The work is done. The result is held, because the payment is not proven yet.",
        "Do not ask the payer to pay again: they get the result with the same payment once it is proven. "
        "To ask the service now: holds retry {id}",
    ),
    PaymentStatus.WORK_FAILED: (
        "The work failed. The service has not confirmed yet that nothing is charged.",
        "Do not ask the payer to pay again before it has. To ask the service now: holds retry {id}",
    ),
    PaymentStatus.STUCK: (
        "The service gives no final answer: {reason}.",
        "Look up the transaction in your seller account. Then: holds retry {id}, or holds discard {id}",
    ),
    PaymentStatus.DELIVERED: (
        "Paid, and the result was delivered on {ended}.",
        "With the same payment the payer can fetch it {redeliveries} more times until {kept}.",
    ),
    PaymentStatus.NOT_FETCHED: (
        "Paid, and the result was not fetched yet.",
        "Ask the payer to send the same request with the same payment by {kept}: they get the result and are "
        "not charged again.",
    ),
    PaymentStatus.EXPIRED: (
        "Paid, and the result was not fetched by {kept}. The next sweep removes it.",
        "Until then the payer gets it with the same request and the same payment. Afterwards serve or refund "
        "them yourself.",
    ),
    PaymentStatus.NOT_CHARGED: (
        "{why} Nothing was charged; that was certain on {ended}.",
        "The payer can pay again.",
    ),
    PaymentStatus.PAID_WITHOUT_RESULT: (
        "Paid, and there is no result to deliver. {why}",
        "Serve or refund the payer yourself. They are not asked to pay again. Its receipt: "
        "faregate receipt {id}",
    ),
}


DISCARDED = "discarded"
"""The reason of a payment that an operator ended."""
_REASONS = {
    "": "The payment or the work failed.",
    "payment_failed": "The payment failed.",
    "interrupted": "The process died or was stopped while the work was done.",
    "not_started": "No work was done for it here.",
    NOT_FETCHED: "The result was not fetched in time, and it was removed.",
    DISCARDED: "An operator discarded it.",
}
"""Why a payment ended without a result. Other reasons are the code with which the work failed."""


class Explanation(NamedTuple):
    """What happened, and what the seller does next."""

    summary: str
    next_step: str


def explain(payment: PaymentInfo, view: JournalView) -> Explanation:
    """Explain a payment. For one of another address, say so first."""
    summary, step = _ANSWERS[payment.status]
    if payment.status is PaymentStatus.DELIVERED and not payment.redeliveries:
        step = "It cannot be fetched again. If the payer does not have it, serve or refund them yourself."
    elif not payment.readable and payment.kept_until is None:
        step = (
            "No sweep and no retry can read it: its journal key is not configured here. Add the key behind "
            "the newest one, FAREGATE_JOURNAL_KEY=NEW,OLD. If it is lost, ask the service what became of the "
            "payment, and then: holds discard {id}, with --unpaid if nothing was charged"
        )
    words = {
        "id": payment.transaction_id,
        "reason": payment.reason,
        "why": _REASONS.get(payment.reason, f"The work failed ({payment.reason})."),
        "redeliveries": payment.redeliveries,
        "ended": format_time(payment.ended_at),
        "kept": format_time(payment.kept_until),
    }
    step = step.format(**words)
    if view.own is not None and payment.namespace != view.own:
        step += f" This payment is kept under {payment.namespace}: sell and retry with that key and address."
    return Explanation(summary.format(**words), step)


def format_time(seconds: float | None) -> str:
    """A POSIX time to the second, in UTC."""
    return "-" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def explain_unknown(reference: Reference, unreadable: int) -> Explanation:
    """Explain that no row is there: what the journal forgets, and who still knows."""
    lines = [
        f"This journal has no payment with the {reference.kind.value} {reference.value}: it never had it, or "
        f"has removed it. Kept are: a delivered result for {DEFAULT_POLICY.redelivery_window / 60:g} minutes "
        "unless redelivery_window says otherwise, and for a day its transaction; one that was not fetched "
        "for a day; a payment that failed for an hour; and a paid one without a result for 30 days. What is "
        "open is never removed.",
    ]
    if unreadable:
        rows = "1 row" if unreadable == 1 else f"{unreadable} rows"
        lines.append(f"{rows} could not be searched, because their journal key is not configured here.")
    if reference.kind is ReferenceKind.TRANSACTION:
        step = f"Ask the service: faregate receipt {reference.value}. Your log has a line for each sale."
    elif reference.kind is ReferenceKind.HASH:
        step = (
            "Try the payer's address: by its chain hash a payment is found only once it is proven. Or find "
            "the hash among all transactions of the service: faregate transactions --json"
        )
    else:
        step = (
            f"Ask the service: faregate transactions --payer {reference.value}. Your log has a line for each "
            "sale."
        )
    return Explanation(" ".join(lines), step)


def find_payments(view: JournalView, reference: Reference) -> FoundPayments:
    """Find payments in the own namespace, else in the others. Raises `JournalError`."""
    unreadable = 0
    for readers in (view.read_own(), view.read_others()):
        payments = list[PaymentInfo]()
        for reader in readers:
            there = reader.find(reference)
            payments += there.payments
            unreadable += there.unreadable
        if payments:
            return FoundPayments(payments, unreadable)
    return FoundPayments([], unreadable)
