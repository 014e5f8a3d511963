"""One payment: how it went, every attempt to settle it, and why it has not ended."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from faregate.merchant.models import SucceededCompleteRequest
from faregate.selfhosted.console.layout import (
    ROOT,
    Column,
    Viewer,
    build_hash,
    build_page,
    build_pairs,
    build_status,
    build_table,
    build_time,
    describe_time_span,
)
from faregate.selfhosted.console.lists import link_to_payer
from faregate.selfhosted.console.markup import Child, Markup, build, join
from faregate.selfhosted.database.finality import LoosePayment
from faregate.selfhosted.database.settlement import AttemptRecord
from faregate.selfhosted.database.transactions import StoredTransaction
from faregate.selfhosted.database.types import to_datetime
from faregate.service.records import PENDING
from faregate.x402.tokens import format_price

MOST_ATTEMPTS: Final = 200
_MEANINGS: Final = {
    "authorized": "The payer has authorized the payment. Nothing was sent: the seller has not reported that "
    "the work is done.",
    "settling": "The seller has reported success. The payment is being sent, and the chain does not prove it "
    "yet.",
    "reconciling": "The payment was sent, or may have been, and no answer proves what became of it. "
    "Only the chain ends it: its transfer, its cancellation, or its deadline in a block that is final.",
    "succeeded": "The payment has settled.",
    "failed": "The payment has failed: nothing was paid for it, and nothing can be paid for it any more.",
}
_UNSENT: Final = (
    "The seller has reported that its work failed, so the service sends nothing. That is no proof that "
    "nothing was paid: whoever holds the authorization can settle it until "
)
_COLUMNS: Final = (Column("Attempt", is_number=True), Column("Began (UTC)"), Column("Answer"), Column("Sent"))


def show_payment(
    viewer: Viewer,
    payment: StoredTransaction,
    attempts: Sequence[AttemptRecord],
    loose: LoosePayment | None,
    now: datetime,
) -> bytes:
    """Show one payment as it is now. `loose` is what became of it after the chain had lost it."""
    terms = payment.context.terms
    return build_page(
        viewer,
        f"{ROOT}/payments",
        f"Payment of {format_price(terms.amount, terms.token.symbol)}",
        build("p", build_status(payment.status), " ", *_explain_status(payment)),
        _build_next(payment, attempts, now),
        _build_loose(loose, viewer),
        build("h2", "Timeline"),
        _build_timeline(payment),
        build("h2", "Attempts to settle"),
        build_table(
            "Attempts to settle",
            _COLUMNS,
            [_build_attempt(one, viewer) for one in attempts],
            "Nothing was sent.",
        ),
        build("h2", "Details"),
        _build_details(payment, viewer),
        _build_receipt(payment),
    )


def _explain_status(payment: StoredTransaction) -> Sequence[Child]:
    if payment.status == "failed" and payment.submitted_at is None:
        return _UNSENT, build_time(to_datetime(payment.row["expires_at"])), "."
    return (_MEANINGS[payment.status],)


def _build_loose(loose: LoosePayment | None, viewer: Viewer) -> Markup | None:
    """Say what became of a payment whose block was replaced after it had succeeded."""
    if loose is None:
        return None
    said: list[Child] = ["A reorganisation of the chain has taken its transfer back. "]
    if loose.state == "open":
        said.append("It is sent again while its authorization is valid.")
    elif loose.transaction_hash is not None:
        said += ["It settled after all, by ", build_hash(loose.transaction_hash, viewer), "."]
    else:
        said.append("Its authorization cannot be used any more: nothing was received.")
    return build("p", *said, class_="why")


def _build_next(
    payment: StoredTransaction, attempts: Sequence[AttemptRecord], now: datetime
) -> Markup | None:
    """Say why a pending payment waits, and for what."""
    if payment.status not in PENDING:
        return None
    said: list[Child] = []
    reason = next((one for one in attempts if one.note), None)
    if reason is not None:
        said += [f"The latest answer, to attempt {reason.number}: ", build("q", reason.note), ". "]
    elif attempts:
        said.append("No attempt has an answer: it has not arrived yet, or the process that waited died. ")
    lease, due = payment.row["lease_until"], payment.row["next_attempt_at"]
    parked = payment.parked
    if parked is not None:
        said += ["It is parked since ", build_time(parked.at), ": ", build("q", parked.reason), "."]
    elif lease is not None and to_datetime(lease) > now:
        said.append(
            f"An attempt is under way; if nothing is heard of it, another begins "
            f"{_describe_when(to_datetime(lease), now)}."
        )
    elif due is not None:
        said.append(f"The next attempt begins {_describe_when(to_datetime(due), now)}.")
    else:
        said.append("It settles when its rule says so: the payment is simulated.")
    return build("p", *said, class_="why")


def _describe_when(moment: datetime, now: datetime) -> str:
    return f"in {describe_time_span(moment - now)}" if moment > now else "as soon as a worker is free"


def _build_timeline(payment: StoredTransaction) -> Markup:
    row = payment.row
    known = [
        ("authorized", row["created_at"]),
        ("completed by the seller", row["submitted_at"]),
        ("settling", row["settling_at"]),
        ("reconciling", row["reconciling_at"]),
        (row["final_status"], row["finished_at"]),
    ]
    moments = sorted(
        ((to_datetime(at), name) for name, at in known if at is not None), key=lambda one: one[0]
    )
    items: list[Markup] = []
    for number, (at, name) in enumerate(moments):
        after = f"+{_describe_seconds(at, moments[number - 1][0])}" if number else ""
        items.append(build("li", build_time(at), " ", build("b", name), " ", build("small", after)))
    return build("ol", *items, class_="timeline")


def _describe_seconds(later: datetime, earlier: datetime) -> str:
    seconds = (later - earlier).total_seconds()
    return f"{seconds:.3f} s" if seconds < 60 else describe_time_span(later - earlier)


def _build_attempt(attempt: AttemptRecord, viewer: Viewer) -> Sequence[Child]:
    sent: Child = None
    if attempt.transaction_hash is not None:
        sent = build_hash(attempt.transaction_hash, viewer)
    if attempt.gas_nonce is not None:
        sent = join(sent, f" gas nonce {attempt.gas_nonce} of ", build("code", attempt.sender))
    return attempt.number, build_time(attempt.started_at), attempt.note or "no answer", sent


def _build_details(payment: StoredTransaction, viewer: Viewer) -> Markup:
    context, row = payment.context, payment.row
    settled, terms = payment.settled, context.terms
    return build_pairs(
        [
            ("Hash", None if settled is None else build_hash(settled.transaction_hash, viewer)),
            ("Transaction", build("code", payment.id)),
            ("Payment request", build("code", payment.payment_request_id)),
            ("Payer", link_to_payer(payment.payer.identifier)),
            ("Paid to", build("code", terms.pay_to)),
            ("Amount", f"{terms.amount} atomic units of {terms.token.symbol}"),
            ("Network", terms.token.network),
            ("Can be sent until", build_time(to_datetime(row["expires_at"]))),
            ("Resource", context.listing.resource.name),
            ("Revision", join(f"{context.revision.number}, ", build("code", context.revision.id))),
            ("URL", row["url"]),
            ("Seller's report", _build_outcome(payment)),
        ]
    )


def _build_outcome(payment: StoredTransaction) -> Markup | None:
    accepted = payment.accepted
    if accepted is None:
        return None
    if not isinstance(accepted, SucceededCompleteRequest):
        return join("failed: ", build("code", accepted.failure_code))
    values = ", ".join(f"{name} = {value}" for name, value in accepted.values.items())
    return join("succeeded", f", {values}" if values else "")


def _build_receipt(payment: StoredTransaction) -> Markup | None:
    settled = payment.settled
    if settled is None:
        return None
    shown = json.dumps(json.loads(settled.receipt_json), indent=2, ensure_ascii=False)
    return build("details", build("summary", "Receipt"), build("pre", shown, tabindex="0"))
