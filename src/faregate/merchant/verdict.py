"""What a reply of the service proves. Pure; the money rules of DESIGN section 4 stand here.

Rules
1. Paid means: HTTP 200, `succeeded`, our transaction id, a receipt for it, and exactly one sane
   `PAYMENT-RESPONSE` header, all on one reply to complete. Every part missing means: not proven.
2. Free means the literal null; granted means a well-formed id.
3. A completion's status that is not known is pending, never succeeded. From a transaction's nothing follows.
4. A 402 is only a 402 if a payer can act on it.
Anything that is not the contract's raises `BadAnswer`.
"""

import re
from dataclasses import replace
from typing import Any

from faregate.answers import (
    Access,
    AccessPending,
    Completion,
    Denied,
    Free,
    Granted,
    NotPaid,
    Proven,
    Settling,
    Standing,
    Trouble,
    Unpaid,
    Unproven,
)
from faregate.errors import ApiError, BadAnswer
from faregate.merchant.answers import AccessDecision, CompletionResult, TransactionDetail
from faregate.merchant.base import AnswerModel
from faregate.merchant.types import TransactionId
from faregate.merchant.wire import INSTRUCTIONS, PAYMENT_RESPONSE, error_of, parse
from faregate.model import Response, header_values

MAX_HEADER = 16 * 1024
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)


def read_access(reply: Response) -> Access:
    """The meaning of a reply to access."""
    match reply.status:
        case 200:
            decision = parse(AccessDecision, reply)
            if decision.transaction_id is None:
                return Free(decision.resource_execution_id)
            return Granted(decision.transaction_id)
        case 202:
            found = _unfinished(reply)
            return AccessPending(_relayable(reply, found), found.transaction_id if found else None)
        case 402 if _one_sane(reply, INSTRUCTIONS) is not None:
            return Unpaid(reply)
        case _:
            return _trouble(reply)


def _trouble(reply: Response) -> Trouble:
    status = 503 if reply.status >= 500 or reply.status == 429 else 502
    return Trouble(status, f"access was answered with {reply.status} {_code(reply)}", _seconds(reply))


def read_completion(reply: Response, transaction_id: str) -> Completion:
    """The meaning of a reply to complete for this transaction."""
    if reply.status not in (200, 202):
        return _refusal(reply)
    if reply.status == 202:
        return _still_settling(reply, transaction_id)
    result = parse(CompletionResult, reply)
    if result.transaction_id != transaction_id:
        return Unproven(f"the reply is about another transaction ({result.transaction_id})")
    match result.status:
        case "succeeded":
            return _proof_of_payment(reply, result)
        case "failed":
            return _not_paid(reply, result)
        case _:
            return _still_settling(replace(reply, status=202), transaction_id)


class _Unfinished(AnswerModel):
    """All that the spec promises of a 202, and what it must not carry."""

    transaction_id: TransactionId
    payment_response: Any = None
    receipt: Any = None


def _unfinished(reply: Response) -> _Unfinished | None:
    try:
        return parse(_Unfinished, reply)
    except BadAnswer:
        return None


def _relayable(reply: Response, found: _Unfinished | None) -> Response:
    """The reply, unless it is not JSON or already carries what only a proven payment may."""
    early = found is None or found.payment_response is not None or found.receipt is not None
    return Response(202) if early else reply


def _still_settling(reply: Response, transaction_id: str) -> Settling | Unproven:
    found = _unfinished(reply)
    if found is None or found.transaction_id != transaction_id:
        return Unproven("the reply is not about this transaction")
    return Settling(_relayable(reply, found))


def _not_paid(reply: Response, result: CompletionResult) -> NotPaid | Unproven:
    """Only a clean `failed` is certain: with any sign of payment the payer must not pay again."""
    signs = (result.receipt, result.payment_response, result.transaction_hash)
    if any(sign is not None for sign in signs) or header_values(reply.headers, PAYMENT_RESPONSE):
        return Unproven("failed, and yet with signs of a payment")
    return NotPaid()


def _proof_of_payment(reply: Response, result: CompletionResult) -> Proven | Unproven:
    payment_response = _one_sane(reply, PAYMENT_RESPONSE)
    if payment_response is None:
        return Unproven("succeeded without one PAYMENT-RESPONSE header")
    if result.receipt is None:
        return Unproven("succeeded without a receipt")
    if result.receipt.transaction_id != result.transaction_id:
        return Unproven("the receipt is about another transaction")
    return Proven(payment_response, result.receipt.model_dump_json())


def _refusal(reply: Response) -> Denied | Unproven:
    # A 402 here must not reach the payer, who would sign a new payment for it. Above 599 no server relays it.
    if not 400 <= reply.status < 600 or reply.status == 402:
        return Unproven(f"complete was answered with {reply.status}")
    return Denied(reply.status, _code(reply), _seconds(reply))


def _code(reply: Response) -> str:
    error = error_of(reply)
    return error.code if isinstance(error, ApiError) else "unreadable"


def read_standing(reply: Response, transaction_id: str) -> Standing:
    """The meaning of a reply to get-transaction. Raises `ApiError` or `BadAnswer`."""
    if reply.status != 200:
        raise error_of(reply)
    detail = parse(TransactionDetail, reply)
    if detail.id != transaction_id:
        raise BadAnswer(f"the reply is about another transaction ({detail.id})")
    match detail.status:
        case "succeeded" if detail.receipt is not None:
            return Standing.SUCCEEDED
        case "failed" if not _looks_settled(detail):
            return Standing.FAILED
        case "authorized":
            return Standing.AUTHORIZED
        case "succeeded" | "failed" | "settling" | "reconciling":
            return Standing.PENDING
        case _:
            return Standing.UNNAMED


def _looks_settled(detail: TransactionDetail) -> bool:
    signs = (detail.receipt, detail.settled_at, detail.settled_atomic, detail.transaction_hash)
    return any(sign is not None for sign in signs)


def _one_sane(reply: Response, name: str) -> str | None:
    """The only value of a header that is about to be relayed, if it is bounded visible ASCII."""
    values = header_values(reply.headers, name)
    if len(values) != 1 or len(values[0]) > MAX_HEADER:
        return None
    return values[0] if _VISIBLE.fullmatch(values[0]) else None


def _seconds(reply: Response) -> str | None:
    """`Retry-After` if it is a number of at most four digits; anything else is left to the default."""
    value = reply.first("retry-after")
    return value if value and len(value) <= 4 and value.isascii() and value.isdigit() else None
