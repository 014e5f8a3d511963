"""What a reply of the service proves. Pure; the money rules of DESIGN section 4 stand here.

Rules
1. Paid means: HTTP 200, `succeeded`, our transaction id, a receipt for it, and exactly one sane
   `PAYMENT-RESPONSE` header, all on one reply to complete. Every part missing means: not proven.
2. Free means the literal null; granted means a well-formed id.
3. A status that is not known is pending, never succeeded.
4. A 402 is only a 402 if a payer can act on it.
Anything that is not the contract's raises `BadAnswer`.
"""

import re
from dataclasses import replace

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
from faregate.merchant.wire import INSTRUCTIONS, PAYMENT_RESPONSE, error_of, parse, pending_id
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
            return AccessPending(reply, pending_id(reply))
        case 402 if _one_sane(reply, INSTRUCTIONS) is not None:
            return Unpaid(reply)
        case _:
            return _trouble(reply)


def _trouble(reply: Response) -> Trouble:
    error = error_of(reply)
    code = error.code if isinstance(error, ApiError) else "unreadable"
    status = 503 if reply.status >= 500 or reply.status == 429 else 502
    return Trouble(status, f"access was answered with {reply.status} {code}", _seconds(reply))


def read_completion(reply: Response, transaction_id: str) -> Completion:
    """The meaning of a reply to complete for this transaction."""
    if reply.status not in (200, 202):
        return _refusal(reply)
    result = parse(CompletionResult, reply)
    if result.transaction_id != transaction_id:
        return Unproven(f"the reply is about another transaction ({result.transaction_id})")
    if reply.status == 202:
        return _settling(reply, result)
    match result.status:
        case "succeeded":
            return _proof_of_payment(reply, result)
        case "failed":
            return NotPaid()
        case _:
            return _settling(reply, result)


def _settling(reply: Response, result: CompletionResult) -> Settling:
    """The reply may be relayed as it is, unless it already carries what only a proven payment may."""
    early = result.payment_response is not None or result.receipt is not None
    return Settling(Response(202) if early else replace(reply, status=202))


def _proof_of_payment(reply: Response, result: CompletionResult) -> Proven | Unproven:
    payment_response = _one_sane(reply, PAYMENT_RESPONSE)
    if payment_response is None:
        return Unproven("succeeded without one PAYMENT-RESPONSE header")
    if result.receipt is None:
        return Unproven("succeeded without a receipt")
    if result.receipt.transaction_id != result.transaction_id:
        return Unproven("the receipt is about another transaction")
    return Proven(payment_response)


def _refusal(reply: Response) -> Denied | Unproven:
    # A 402 here must not reach the payer, who would sign a new payment for it.
    if reply.status < 400 or reply.status == 402:
        return Unproven(f"complete was answered with {reply.status}")
    error = error_of(reply)
    code = error.code if isinstance(error, ApiError) else "unreadable"
    return Denied(reply.status, code, _seconds(reply))


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
        case "failed":
            return Standing.FAILED
        case "authorized":
            return Standing.AUTHORIZED
        case _:
            return Standing.PENDING


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
