"""What the service says over the wire, whole or damaged, and what the real verdict makes of it."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

from faregate.core.models import Response
from faregate.errors import FaregateError, NoAnswer
from faregate.merchant.interpret import (
    parse_access,
    parse_completion,
    parse_payer,
    parse_transaction_state,
)
from tests.merchant.samples import COMPLETED, SETTLEMENT, TRANSACTION
from tests.model.service import AUTHORIZED, CONFLICT, FAILED, NEW, SETTLING, SUCCEEDED, UNKNOWN
from tests.support.replies import json_reply

WELL = "well"
LOST = ("lost before", "lost after")
LATE = "lost before, and it acts later"
ERRORS = ("500 before", "500 after")
DAMAGE = ("garbage", "another id", "no header", "no receipt", "202")
FAULTS = (*LOST, LATE, *ERRORS, *DAMAGE)
"""How a call may go; the service has acted, unless it says `before`."""

_SAMPLE_PAYER = TRANSACTION["payer"].encode()
INSTRUCTIONS = "aW5zdHI="
PAYMENT_RESPONSE = "cGFpZA=="


class Raised:
    """An answer that is an exception. Two that say the same are the same answer."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self._said = (type(error), str(error))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raised) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said)

    def __repr__(self) -> str:
        return repr(self._error)

    def error(self) -> Exception:
        """Without what an earlier flow left on it."""
        self._error.__cause__ = self._error.__context__ = None
        return self._error.with_traceback(None)


@cache
def transaction(number: int) -> str:
    return f"txn_0190{number:08x}7aaa8aaaaaaaaaaaaaaa"


@cache
def payer_of(number: int) -> str:
    """Payments 1 and 2 are one payer's, 3 and 4 another one's, 5 and 6 the first one's again."""
    return "0x" + "ab"[(number - 1) // 2 % 2] * 40


@cache
def meaning(call: str, said: str, number: int, how: str) -> Any:
    """What the flow is told: `said` by the service to this call, and `how` it came through."""
    if how in (*LOST, LATE):
        return Raised(NoAnswer("the answer was lost"))
    txn = transaction(number)
    reply = _error() if how in ERRORS else _damaged(_reply(call, said, txn), how)
    if call == "payer":
        reply = replace(reply, body=reply.body.replace(_SAMPLE_PAYER, payer_of(number).encode()))
    try:
        match call:
            case "access":
                return parse_access(reply)
            case "complete":
                return parse_completion(reply, txn)
            case "payer":
                return parse_payer(reply, txn)
            case _:
                return parse_transaction_state(reply, txn)
    except FaregateError as error:
        return Raised(error)


def _reply(call: str, said: str, txn: str) -> Response:
    if said == UNKNOWN:
        return json_reply(404, {"code": "transaction_not_found", "message": "m"})
    if said == CONFLICT:
        return json_reply(409, {"code": "invalid_request", "message": "m"})
    return {"access": _access, "complete": _completion, "standing": _detail, "payer": _detail}[call](
        said, txn
    )


def _access(said: str, txn: str) -> Response:
    if said in (NEW, SUCCEEDED, FAILED):
        refusal = {"code": "payment_required", "message": "m"}
        return json_reply(402, refusal, ("PAYMENT-REQUIRED", INSTRUCTIONS))
    return json_reply(200 if said == AUTHORIZED else 202, {"transaction_id": txn})


def _completion(said: str, txn: str) -> Response:
    body = _about(COMPLETED, "transaction_id", txn) | {"status": said}
    if said == SUCCEEDED:
        return json_reply(200, body, ("PAYMENT-RESPONSE", PAYMENT_RESPONSE))
    body |= {"payment_response": None, "receipt": None, "transaction_hash": None}
    return json_reply(202 if said == SETTLING else 200, body)


def _detail(said: str, txn: str) -> Response:
    body = _about(TRANSACTION, "id", txn) | {"status": said}
    if said == SUCCEEDED:
        return json_reply(200, body | {"receipt": _about(COMPLETED, "transaction_id", txn)["receipt"]})
    return json_reply(200, {name: value for name, value in body.items() if name not in SETTLEMENT})


def _about(sample: dict[str, Any], name: str, txn: str) -> dict[str, Any]:
    body = deepcopy(sample)
    body[name] = txn
    if "receipt" in body:
        body["receipt"]["transaction_id"] = txn
    return body


def _error() -> Response:
    return json_reply(500, {"code": "internal_error", "message": "m"})


def _damaged(reply: Response, how: str) -> Response:
    match how:
        case "garbage":
            return Response(reply.status, reply.headers, reply.body[: len(reply.body) // 2])
        case "another id":
            return Response(reply.status, reply.headers, reply.body.replace(b"txn_0190", b"txn_0191"))
        case "no header":
            return Response(reply.status, (), reply.body)
        case "no receipt":
            return Response(
                reply.status, reply.headers, reply.body.replace(b'"receipt": {', b'"received": {')
            )
        case "202":
            return Response(202, reply.headers, reply.body)
        case _:
            return reply
