"""Decide what a reply of the service proves. Pure; the rules of docs/flow.md.

Rules
1. Paid means: HTTP 200, `succeeded`, our transaction id, a receipt, and exactly one sane `PAYMENT-RESPONSE`
   header, all on one reply to complete. Every part missing means: not proven.
2. Free means the literal null; granted means a well-formed id.
3. A completion's status that is not known is pending, never succeeded. An unknown status of a
   transaction is `UNRECOGNIZED`: nothing is concluded from it.
4. A 402 is only a 402 if a payer can act on it.
5. Only the fields that a decision needs are read. Others may be missing, null or of another shape. The
   content of a receipt is passed on, not judged.
An unreadable body with status 200 raises `BadAnswer`. Any other reply that proves nothing is `AccessFailed`,
`CompletionUnknown` or `CompletionRejected`, never `CompletionUnpaid`.
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
    TransactionReply,
    TransactionSettled,
    TransactionState,
)
from faregate.errors import BadAnswer, PaymentRequired, api_error
from faregate.merchant import json_text
from faregate.merchant.formats import ID_TAIL
from faregate.merchant.requests import INSTRUCTIONS, PAYMENT_RESPONSE

MAX_HEADER = 16 * 1024
_TRANSACTION_ID, _REVISION_ID = re.compile(f"txn_{ID_TAIL}"), re.compile(f"acr_{ID_TAIL}")
_EXECUTION_ID = re.compile(f"rex_{ID_TAIL}")
_ADDRESS = re.compile("0x[0-9a-fA-F]{40}")
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_SIGNS_OF_PAYMENT = ("receipt", "payment_response", "transaction_hash", "settled_at", "settled_atomic")


def parse_object(reply: Response) -> dict[str, Any]:
    """Parse the body as a JSON object, or raise `BadAnswer`. The caller checks its fields."""
    return _parse_with_receipt(reply)[0]


def _parse_with_receipt(reply: Response) -> tuple[dict[str, Any], str]:
    """Parse the body as a JSON object, and write its receipt (empty without one). Raises `BadAnswer`."""
    pydantic_core = json_text.load()
    receipt = b""
    try:
        # Strict, and bounded in depth whatever the process has set as its recursion limit.
        fields = pydantic_core.from_json(reply.body, allow_inf_nan=False, cache_strings="keys")
        # A serialized dict has every name once. If it equals the reply, so has the reply.
        if isinstance(fields, dict) and "receipt" in fields:
            # Serialized once, and put into the rest. Wherever it lands, every name is there once.
            receipt = pydantic_core.to_json(fields["receipt"])
            written = pydantic_core.to_json({**cast("dict[str, Any]", fields), "receipt": None})
            written = written.replace(b'"receipt":null', b'"receipt":' + receipt, 1)
        else:
            written = pydantic_core.to_json(fields)
        if written != reply.body:
            json.loads(reply.body, object_pairs_hook=json_text.check_unique_names)
    except (ValueError, RecursionError) as error:
        fault = json_text.describe_fault(error)
        raise BadAnswer(f"HTTP {reply.status}: not a JSON object: {fault}") from None
    if not isinstance(fields, dict):
        raise BadAnswer(f"HTTP {reply.status}: not a JSON object")
    return cast("dict[str, Any]", fields), receipt.decode()


# Errors


def parse_error_body(reply: Response) -> tuple[str, str]:
    """The code and the message of an error that the service itself wrote, or `BadAnswer`."""
    fields = parse_object(reply)
    code, message = fields.get("code"), fields.get("message")
    if not isinstance(code, str) or not isinstance(message, str):
        raise BadAnswer(f"HTTP {reply.status}: not an error body: code and message are strings")
    return code, message


def parse_error(reply: Response) -> Exception:
    """Return the error of this reply, of code `unknown` if its body is unreadable; `BadAnswer` below 400."""
    try:
        code, message = parse_error_body(reply)
    except BadAnswer as error:
        if reply.status < 400:
            return error
        code, message = "unknown", "the service gave no readable error body"
    fault = api_error(reply.status, code, message, reply.first("retry-after"))
    if isinstance(fault, PaymentRequired):
        fault.instructions = reply.first(INSTRUCTIONS)
    return fault


# What a service inside this process sells


def parse_published(reply: Response) -> dict[str, OfferRevision]:
    """Parse what a service inside this process has published, by integration key."""
    return {key: _parse_published(revision) for key, revision in parse_object(reply).items()}


def _parse_published(revision: Any) -> OfferRevision:
    names, required = (frozenset(revision.get(name, ())) for name in ("names", "required"))
    return OfferRevision(revision["id"], revision["asset"], names, required)


# Access


def parse_access(reply: Response) -> Access:
    """The meaning of a reply to access."""
    match reply.status:
        case 200:
            return _parse_decision(parse_object(reply))
        case 202:
            pending = _parse_pending(reply)
            return AccessPending(_keep_if_unproven(reply, pending), _find_transaction_id(pending))
        case 402 if _find_header(reply, INSTRUCTIONS) is not None:
            return AccessUnpaid(reply)
        # A 422 that the service did not write says nothing about the revision.
        case 422 if _find_error_code(reply) is not None:
            return RevisionRejected(_parse_failure(reply))
        case _:
            return _parse_failure(reply)


def _parse_decision(decision: dict[str, Any]) -> AccessFree | AccessGranted:
    if decision.get("transaction_id", "") is None:
        execution_id = decision.get("resource_execution_id")
        is_known = isinstance(execution_id, str) and _EXECUTION_ID.fullmatch(execution_id)
        return AccessFree(execution_id if is_known else None)
    transaction_id = _find_transaction_id(decision)
    if transaction_id is None:
        raise BadAnswer("HTTP 200: an access decision without a transaction_id")
    return AccessGranted(transaction_id)


def _parse_failure(reply: Response) -> AccessFailed:
    status = 503 if reply.status >= 500 or reply.status == 429 else 502
    return AccessFailed(
        status, f"access was answered with {reply.status} {_name_error_code(reply)}", _find_retry_after(reply)
    )


# Completion


def parse_completion(reply: Response, transaction_id: str) -> Completion:
    """The meaning of a reply to complete for this transaction."""
    if reply.status not in (200, 202):
        return _parse_rejection(reply)
    if reply.status == 202:
        return _parse_settling(reply, transaction_id)
    result, receipt = _parse_with_receipt(reply)
    if result.get("transaction_id") != transaction_id:
        return CompletionUnknown("the reply is about another transaction")
    match result.get("status"):
        case "succeeded":
            return _parse_paid(reply, result, receipt)
        case "failed":
            return _parse_unpaid(reply, result)
        case str():
            # Relay it as a 202: with status 200 the payer would take it for the result.
            return _parse_settling(replace(reply, status=202), transaction_id)
        case _:
            raise BadAnswer("HTTP 200: a completion without a status")


def _parse_pending(reply: Response) -> dict[str, Any] | None:
    try:
        return parse_object(reply)
    except BadAnswer:
        return None


def _find_transaction_id(fields: dict[str, Any] | None) -> str | None:
    value = None if fields is None else fields.get("transaction_id")
    return value if isinstance(value, str) and _TRANSACTION_ID.fullmatch(value) else None


def _keep_if_unproven(reply: Response, fields: dict[str, Any] | None) -> Response:
    """Return the reply, or an empty 202 if it names no transaction or carries what only a paid one may."""
    early = fields is None or fields.get("payment_response") is not None or fields.get("receipt") is not None
    return Response(202) if early or _find_transaction_id(fields) is None else reply


def _parse_settling(reply: Response, transaction_id: str) -> CompletionPending | CompletionUnknown:
    pending = _parse_pending(reply)
    if _find_transaction_id(pending) != transaction_id:
        return CompletionUnknown("the reply is not about this transaction")
    return CompletionPending(_keep_if_unproven(reply, pending))


def _parse_unpaid(reply: Response, result: dict[str, Any]) -> CompletionUnpaid | CompletionUnknown:
    """Only a clean `failed` is certain: with any sign of payment the payer must not pay again."""
    if _looks_paid(result) or header_values(reply.headers, PAYMENT_RESPONSE):
        return CompletionUnknown("failed, and yet with signs of a payment")
    return CompletionUnpaid()


def _parse_paid(reply: Response, result: dict[str, Any], receipt: str) -> CompletionPaid | CompletionUnknown:
    payment_response = _find_header(reply, PAYMENT_RESPONSE)
    if payment_response is None:
        return CompletionUnknown("succeeded without one PAYMENT-RESPONSE header")
    if not _has_receipt(result):
        return CompletionUnknown("succeeded without a receipt")
    return CompletionPaid(payment_response, receipt)


def _parse_rejection(reply: Response) -> CompletionRejected | CompletionUnknown:
    # A 402 here must not reach the payer, who would sign a new payment for it. Above 599 no server relays it.
    if not 400 <= reply.status < 600 or reply.status == 402:
        return CompletionUnknown(f"complete was answered with {reply.status}")
    return CompletionRejected(
        reply.status, _name_error_code(reply), _find_retry_after(reply), _find_error_code(reply) is not None
    )


def _find_error_code(reply: Response) -> str | None:
    """The code of an error that the service itself wrote; None for what a proxy says in its place."""
    try:
        return parse_error_body(reply)[0]
    except BadAnswer:
        return None


def _name_error_code(reply: Response) -> str:
    code = _find_error_code(reply)
    return "unreadable" if code is None else code


# A free execution


def parse_closed_execution(reply: Response) -> None:
    """Check that the reply is a success; its content is not used. Raises `ApiError` or `BadAnswer`."""
    if reply.status != 200:
        raise parse_error(reply)
    closed = parse_object(reply).get("resource_execution_id")
    if not (isinstance(closed, str) and _EXECUTION_ID.fullmatch(closed)):
        raise BadAnswer("HTTP 200: the reply is about no execution")


# A transaction


def parse_transaction_state(reply: Response, transaction_id: str) -> TransactionReply:
    """The meaning of a reply to get-transaction. Raises `ApiError` or `BadAnswer`."""
    if reply.status != 200:
        raise parse_error(reply)
    detail, receipt = _parse_with_receipt(reply)
    if detail.get("id") != transaction_id:
        raise BadAnswer("HTTP 200: the reply is about another transaction")
    match detail.get("status"):
        case "succeeded" if _has_receipt(detail):
            return TransactionSettled(receipt)
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


def parse_payer(reply: Response, transaction_id: str) -> str:
    """Who pays this transaction, in lower case: addresses may be written in either. Raises `ServiceError`."""
    if reply.status != 200:
        raise parse_error(reply)
    detail = parse_object(reply)
    payer = detail.get("payer")
    # Payers are compared: two payments of `unknown` are not one payer's.
    if detail.get("id") != transaction_id or not (isinstance(payer, str) and _ADDRESS.fullmatch(payer)):
        raise BadAnswer("HTTP 200: the reply names no payer of this transaction")
    return payer.lower()


def _looks_paid(fields: dict[str, Any]) -> bool:
    return any(fields.get(sign) is not None for sign in _SIGNS_OF_PAYMENT)


def _has_receipt(fields: dict[str, Any]) -> bool:
    receipt = fields.get("receipt")
    return isinstance(receipt, dict) and bool(cast("dict[str, Any]", receipt))


# Contracts


def parse_revisions(reply: Response) -> dict[str, OfferRevision]:
    """Every active revision, by its id and by its integration key. Raises `ServiceError`.

    Of several revisions under one key the one with the highest number sells. A revision that cannot be read
    is left out: the others are for sale.
    """
    if reply.status != 200:
        raise parse_error(reply)
    revisions: dict[str, OfferRevision] = {}
    newest: dict[str, int] = {}
    for schema in _find_schemas(parse_object(reply)):
        revision = _parse_revision(schema)
        if revision is None:
            continue
        revisions[revision.revision_id] = revision
        key, number = schema.get(_INTEGRATION_KEY), schema.get(_NUMBER)
        number = number if isinstance(number, int) else 0
        if isinstance(key, str) and number >= newest.get(key, 0):
            revisions[key], newest[key] = revision, number
    return revisions


_ID, _ASSET = "x-svc-revision-id", "x-svc-settlement-asset"
_INTEGRATION_KEY, _NUMBER = "x-svc-resource-integration-key", "x-svc-revision-number"


def _find_schemas(document: dict[str, Any]) -> list[dict[str, Any]]:
    components: Any = document.get("components")
    schemas: Any = cast("dict[str, Any]", components).get("schemas") if isinstance(components, dict) else None
    if not isinstance(schemas, dict):
        raise BadAnswer("HTTP 200: a contracts document without components.schemas")
    return [
        cast("dict[str, Any]", schema)
        for schema in cast("dict[str, Any]", schemas).values()
        if isinstance(schema, dict)
    ]


def _parse_revision(schema: dict[str, Any]) -> OfferRevision | None:
    revision_id, asset = schema.get(_ID), schema.get(_ASSET)
    properties, required = schema.get("properties"), schema.get("required")
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


def _find_header(reply: Response, name: str) -> str | None:
    """The only value of a header that is about to be relayed, if it is bounded visible ASCII."""
    values = header_values(reply.headers, name)
    if len(values) != 1 or len(values[0]) > MAX_HEADER:
        return None
    return values[0] if _VISIBLE.fullmatch(values[0]) else None


def _find_retry_after(reply: Response) -> str | None:
    """`Retry-After` if it is a number of at most four digits or a date; else the default is used."""
    value = reply.first("retry-after")
    if value is None or not value.isascii():
        return None
    if value.isdigit():
        return value if len(value) <= 4 else None
    try:
        return format_datetime(parsedate_to_datetime(value), usegmt=True)
    except (ValueError, TypeError, OverflowError):  # a year or a zone of many digits overflows
        return None
