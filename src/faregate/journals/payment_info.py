"""How a payment stands, read from its row, for operators. Neither the proof nor the result is shown."""

import json
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from faregate.frozen import frozen
from faregate.journals.durations import JournalPolicy
from faregate.journals.row_rules import Row
from faregate.journals.states import (
    CLAIMED,
    FAILED,
    PAID_NO_RESULT,
    RUNNING,
    SETTLED,
    STUCK,
    SUCCEEDED,
    UNPAID,
    UNSTARTED,
    WAITING,
)
from faregate.x402.headers import find_payer, find_settlement

_HASH = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
_TRANSACTION = re.compile(r"txn_[!-~]+", re.ASCII)


class ReferenceKind(Enum):
    """What a payment can be found by. The values are the words for people."""

    TRANSACTION = "transaction"
    HASH = "chain hash"
    PAYER = "payer"


class Reference(NamedTuple):
    """What a customer can quote of a payment. A hash or an address is in lower case."""

    kind: ReferenceKind
    value: str


def parse_reference(text: str) -> Reference:
    """Tell a transaction, a chain hash and a payer's address apart. Raises `ValueError`."""
    text = text.strip()
    if _HASH.fullmatch(text):
        return Reference(ReferenceKind.HASH, text.lower())
    if _ADDRESS.fullmatch(text):
        return Reference(ReferenceKind.PAYER, text.lower())
    if _TRANSACTION.fullmatch(text):
        return Reference(ReferenceKind.TRANSACTION, text)
    raise ValueError(
        f"{text!r:.200} is neither a transaction (txn_...), nor a chain hash (0x and 64 hexadecimal digits), "
        "nor a payer's address (0x and 40)"
    )


class PaymentStatus(Enum):
    """What became of a payment. The values are part of the JSON of `holds show`."""

    BEING_CHECKED = "being_checked"
    """The service is being asked about it."""
    NOT_ACCEPTED = "not_accepted"
    """The service did not grant it, or was not asked to the end."""
    AUTHORIZED = "authorized"
    """The service granted it; no work was started."""
    SETTLING = "settling"
    """It settles without work of ours."""
    WORKING = "working"
    INTERRUPTED = "interrupted"
    """The work was started, and its process died."""
    UNPROVEN = "unproven"
    """The work is done; the payment is not proven yet."""
    WORK_FAILED = "work_failed"
    """The work failed, and the service has not acknowledged that yet."""
    STUCK = "stuck"
    DELIVERED = "delivered"
    NOT_FETCHED = "not_fetched"
    """Paid, and the payer has not fetched the result."""
    EXPIRED = "expired"
    """Paid, and the payer did not fetch the result in time: the next sweep removes it."""
    NOT_CHARGED = "not_charged"
    PAID_WITHOUT_RESULT = "paid_without_result"


class FoundPayments:
    """Payments, newest first. `unreadable` counts the rows whose key is missing."""

    def __init__(self, payments: Iterable["PaymentInfo"], unreadable: int = 0) -> None:
        self.payments = sorted(payments, key=lambda payment: payment.since, reverse=True)
        self.unreadable = unreadable


@frozen
class PaymentInfo:
    """One payment, as its row tells it. Times are the journal's clock, in seconds.

    `ended_at` is when a final payment ended, or was delivered first. `kept_until` is None while the payment
    is open. `redeliveries` are those left. A row that is not `readable` is encrypted with a key that this
    journal does not have: its request, payer and hash are unknown.
    """

    namespace: str
    status: PaymentStatus
    transaction_id: str
    revision_id: str
    request_line: str
    payer: str
    transaction_hash: str
    since: float
    ended_at: float | None
    kept_until: float | None
    next_try: float
    reason: str
    attempts: int
    size: int
    redeliveries: int
    readable: bool = True


_OPEN = {
    CLAIMED: PaymentStatus.NOT_ACCEPTED,
    UNSTARTED: PaymentStatus.AUTHORIZED,
    WAITING: PaymentStatus.SETTLING,
    RUNNING: PaymentStatus.INTERRUPTED,
    SUCCEEDED: PaymentStatus.UNPROVEN,
    FAILED: PaymentStatus.WORK_FAILED,
    STUCK: PaymentStatus.STUCK,
}
_FINAL = {
    UNPAID: PaymentStatus.NOT_CHARGED,
    PAID_NO_RESULT: PaymentStatus.PAID_WITHOUT_RESULT,
}
_LEASED = {CLAIMED: PaymentStatus.BEING_CHECKED, RUNNING: PaymentStatus.WORKING}


def describe_row(
    row: Row,
    namespace: str,
    now: float,
    policy: JournalPolicy,
    *,
    size: int,
    leased: bool,
    readable: bool = True,
) -> PaymentInfo:
    """Describe a row. `size` is that of its result. `leased`: a request or a sweep works on it now."""
    payer, transaction_hash = find_parties(row)
    is_final = row.expires_at is not None and row.state is not CLAIMED
    return PaymentInfo(
        namespace,
        _get_status(row, now, leased),
        row.transaction_id,
        row.revision_id,
        row.request_line,
        payer,
        transaction_hash,
        row.since,
        row.touched_at if is_final else None,
        row.expires_at,
        max(row.lease_until, row.due_at),
        row.reason,
        row.holds_so_far,
        size,
        max(0, policy.redeliveries - row.redelivered) if _has_delivered_result(row, now) else 0,
        readable,
    )


def _get_status(row: Row, now: float, leased: bool) -> PaymentStatus:
    if row.delivered:
        return PaymentStatus.DELIVERED
    if row.state is SETTLED:
        is_over = row.expires_at is not None and row.expires_at <= now
        return PaymentStatus.EXPIRED if is_over else PaymentStatus.NOT_FETCHED
    if leased and row.state in _LEASED:
        return _LEASED[row.state]
    return _OPEN.get(row.state) or _FINAL[row.state]


def _has_delivered_result(row: Row, now: float) -> bool:
    return row.state is SETTLED and row.delivered and not row.has_expired_result(now)


def is_found_by(row: Row, reference: Reference) -> bool:
    """Whether this is the reference's payment, or one of its payer."""
    if reference.kind is ReferenceKind.TRANSACTION:
        return row.transaction_id == reference.value
    payer, transaction_hash = find_parties(row)
    return reference.value == (payer if reference.kind is ReferenceKind.PAYER else transaction_hash)


def find_parties(row: Row) -> tuple[str, str]:
    """Return the payer's address and the chain hash, or "" for each, in lower case.

    A paid row has both in its receipt. While it is open, its proof names the payer. A row that ended
    unpaid has the payer alone.
    """
    from_receipt = _read_receipt(row.receipt)
    from_header = find_settlement(row.payment_response)
    payer = from_receipt[0] or from_header[0] or row.payer or find_payer(row.proof)
    return payer, from_receipt[1] or from_header[1]


def _read_receipt(receipt: str) -> tuple[str, str]:
    """Read payer and chain hash of a receipt, whose content is not checked."""
    try:
        payment: Any = json.loads(receipt)["payment"]
        return str(payment["payer"]).lower(), str(payment["transaction_hash"]).lower()
    except (ValueError, KeyError, TypeError):
        return "", ""
