"""What a reply of the service proves. Pure; the money rules of DESIGN section 3 stand here.

Rules
1. Paid means: HTTP 200, `succeeded`, our transaction id, a receipt, and exactly one sane `PAYMENT-RESPONSE`
   header, all on one reply to complete. Every part missing means: not proven.
2. Free means the literal null; granted means a well-formed id.
3. A completion's status that is not known is pending, never succeeded. From a transaction's nothing follows.
4. A 402 is only a 402 if a payer can act on it.
5. Only the fields that a decision needs are read. Others may be missing, null or of another shape. The
   content of a receipt is passed on, not judged.
Anything that is not the contract's raises `BadAnswer`.
"""

import json
import re
from dataclasses import replace
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any, cast

from faregate.core.models import OfferRevision, Response, header_values
from faregate.core.results import (
    Access,
    AccessFailed,
    AccessFree,
    AccessGranted,
    AccessPending,
    AccessUnpaid,
    Completion,
    CompletionPaid,
    CompletionPending,
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
    RevisionRejected,
    TransactionState,
)
from faregate.errors import BadAnswer
from faregate.merchant.models import ErrorBody
from faregate.merchant.types import ID_TAIL
from faregate.merchant.wire import INSTRUCTIONS, PAYMENT_RESPONSE, parse, parse_error, parse_object

MAX_HEADER = 16 * 1024
_TRANSACTION_ID, _REVISION_ID = re.compile(f"txn_{ID_TAIL}"), re.compile(f"acr_{ID_TAIL}")
_EXECUTION_ID = re.compile(f"rex_{ID_TAIL}")
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_SIGNS_OF_PAYMENT = ("receipt", "payment_response", "transaction_hash", "settled_at", "settled_atomic")


# Access


def parse_access(reply: Response) -> Access:
    """The meaning of a reply to access."""
    match reply.status:
        case 200:
            return _read_decision(parse_object(reply))
        case 202:
            found = _unfinished(reply)
            return AccessPending(_relayable(reply, found), _transaction_id(found))
        case 402 if _one_sane(reply, INSTRUCTIONS) is not None:
            return AccessUnpaid(reply)
        case 422 if _error(reply) is not None:
            return RevisionRejected(_trouble(reply))
        case _:
            return _trouble(reply)


def _read_decision(decision: dict[str, Any]) -> AccessFree | AccessGranted:
    if decision.get("transaction_id", "") is None:
        execution_id = decision.get("resource_execution_id")
        known = isinstance(execution_id, str) and _EXECUTION_ID.fullmatch(execution_id)
        return AccessFree(execution_id if known else None)
    transaction_id = _transaction_id(decision)
    if transaction_id is None:
        raise BadAnswer("HTTP 200: an access decision without a transaction_id")
    return AccessGranted(transaction_id)


def _trouble(reply: Response) -> AccessFailed:
    status = 503 if reply.status >= 500 or reply.status == 429 else 502
    return AccessFailed(
        status, f"access was answered with {reply.status} {_code(reply)}", _retry_after(reply)
    )


# Completion


def parse_completion(reply: Response, transaction_id: str) -> Completion:
    """The meaning of a reply to complete for this transaction."""
    if reply.status not in (200, 202):
        return _refusal(reply)
    if reply.status == 202:
        return _still_settling(reply, transaction_id)
    result = parse_object(reply)
    if result.get("transaction_id") != transaction_id:
        return CompletionUnknown("the reply is about another transaction")
    match result.get("status"):
        case "succeeded":
            return _proof_of_payment(reply, result)
        case "failed":
            return _not_paid(reply, result)
        case str():
            return _still_settling(replace(reply, status=202), transaction_id)
        case _:
            raise BadAnswer("HTTP 200: a completion without a status")


def _unfinished(reply: Response) -> dict[str, Any] | None:
    try:
        return parse_object(reply)
    except BadAnswer:
        return None


def _transaction_id(found: dict[str, Any] | None) -> str | None:
    given = None if found is None else found.get("transaction_id")
    return given if isinstance(given, str) and _TRANSACTION_ID.fullmatch(given) else None


def _relayable(reply: Response, found: dict[str, Any] | None) -> Response:
    """The reply, unless it is not JSON or already carries what only a proven payment may."""
    early = found is None or found.get("payment_response") is not None or found.get("receipt") is not None
    return Response(202) if early or _transaction_id(found) is None else reply


def _still_settling(reply: Response, transaction_id: str) -> CompletionPending | CompletionUnknown:
    found = _unfinished(reply)
    if _transaction_id(found) != transaction_id:
        return CompletionUnknown("the reply is not about this transaction")
    return CompletionPending(_relayable(reply, found))


def _not_paid(reply: Response, result: dict[str, Any]) -> CompletionUnpaid | CompletionUnknown:
    """Only a clean `failed` is certain: with any sign of payment the payer must not pay again."""
    if _looks_paid(result) or header_values(reply.headers, PAYMENT_RESPONSE):
        return CompletionUnknown("failed, and yet with signs of a payment")
    return CompletionUnpaid()


def _proof_of_payment(reply: Response, result: dict[str, Any]) -> CompletionPaid | CompletionUnknown:
    payment_response = _one_sane(reply, PAYMENT_RESPONSE)
    if payment_response is None:
        return CompletionUnknown("succeeded without one PAYMENT-RESPONSE header")
    if not _has_receipt(result):
        return CompletionUnknown("succeeded without a receipt")
    return CompletionPaid(payment_response, json.dumps(result["receipt"]))


def _refusal(reply: Response) -> CompletionRejected | CompletionUnknown:
    # A 402 here must not reach the payer, who would sign a new payment for it. Above 599 no server relays it.
    if not 400 <= reply.status < 600 or reply.status == 402:
        return CompletionUnknown(f"complete was answered with {reply.status}")
    return CompletionRejected(reply.status, _code(reply), _retry_after(reply), _error(reply) is not None)


def _error(reply: Response) -> ErrorBody | None:
    """The error that the service itself wrote; None for what a proxy or balancer says in its place."""
    try:
        return parse(ErrorBody, reply)
    except BadAnswer:
        return None


def _code(reply: Response) -> str:
    error = _error(reply)
    return "unreadable" if error is None else error.code


# A transaction


def parse_transaction_state(reply: Response, transaction_id: str) -> TransactionState:
    """The meaning of a reply to get-transaction. Raises `ApiError` or `BadAnswer`."""
    if reply.status != 200:
        raise parse_error(reply)
    detail = parse_object(reply)
    if detail.get("id") != transaction_id:
        raise BadAnswer("HTTP 200: the reply is about another transaction")
    match detail.get("status"):
        case "succeeded" if _has_receipt(detail):
            return TransactionState.SUCCEEDED
        case "failed" if not _looks_paid(detail):
            return TransactionState.FAILED
        case "authorized":
            return TransactionState.AUTHORIZED
        case "settling" | "reconciling":
            return TransactionState.PENDING
        case "succeeded" | "failed":
            return TransactionState.CONTRADICTORY
        case _:
            return TransactionState.UNRECOGNIZED


def _looks_paid(found: dict[str, Any]) -> bool:
    return any(found.get(sign) is not None for sign in _SIGNS_OF_PAYMENT)


def _has_receipt(found: dict[str, Any]) -> bool:
    receipt = found.get("receipt")
    return isinstance(receipt, dict) and bool(cast("dict[str, Any]", receipt))


# Contracts


def parse_revisions(reply: Response) -> dict[str, OfferRevision]:
    """The rules of every active revision, by its id and by its integration key. Raises `ServiceError`.

    Of several revisions under one key the one with the highest number sells. A revision that cannot be read
    is left out: the others are for sale.
    """
    if reply.status != 200:
        raise parse_error(reply)
    found: dict[str, OfferRevision] = {}
    newest: dict[str, int] = {}
    for revision in _schemas(parse_object(reply)):
        rules = _rules(revision)
        if rules is None:
            continue
        found[rules.revision_id] = rules
        key, number = revision.get(_INTEGRATION_KEY), revision.get(_NUMBER)
        number = number if isinstance(number, int) else 0
        if isinstance(key, str) and number >= newest.get(key, 0):
            found[key], newest[key] = rules, number
    return found


_ID, _ASSET = "x-svc-revision-id", "x-svc-settlement-asset"
_INTEGRATION_KEY, _NUMBER = "x-svc-resource-integration-key", "x-svc-revision-number"


def _schemas(document: dict[str, Any]) -> list[dict[str, Any]]:
    components: Any = document.get("components")
    schemas: Any = cast("dict[str, Any]", components).get("schemas") if isinstance(components, dict) else None
    if not isinstance(schemas, dict):
        raise BadAnswer("HTTP 200: a contracts document without components.schemas")
    found = cast("dict[str, Any]", schemas).values()
    return [cast("dict[str, Any]", schema) for schema in found if isinstance(schema, dict)]


def _rules(revision: dict[str, Any]) -> OfferRevision | None:
    revision_id, asset = revision.get(_ID), revision.get(_ASSET)
    properties, required = revision.get("properties"), revision.get("required")
    if not (isinstance(revision_id, str) and _REVISION_ID.fullmatch(revision_id)):
        return None
    if asset not in ("EURC", "USDC"):
        return None
    if not (isinstance(properties, dict) and isinstance(required, list)):
        return None
    names = cast("dict[str, Any]", properties)
    return OfferRevision(
        revision_id, asset, frozenset(names), frozenset(str(name) for name in cast("list[object]", required))
    )


# Headers


def _one_sane(reply: Response, name: str) -> str | None:
    """The only value of a header that is about to be relayed, if it is bounded visible ASCII."""
    values = header_values(reply.headers, name)
    if len(values) != 1 or len(values[0]) > MAX_HEADER:
        return None
    return values[0] if _VISIBLE.fullmatch(values[0]) else None


def _retry_after(reply: Response) -> str | None:
    """`Retry-After` if it is a number of at most four digits or a date; else the default is used."""
    value = reply.first("retry-after")
    if value is None or not value.isascii():
        return None
    if value.isdigit():
        return value if len(value) <= 4 else None
    try:
        return format_datetime(parsedate_to_datetime(value), usegmt=True)
    except (ValueError, TypeError):
        return None
