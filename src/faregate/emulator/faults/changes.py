"""Answers that a fault makes, or makes of those of the service. Pure."""

import json
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from faregate.core.models import Headers, Response
from faregate.emulator.facts import Facts
from faregate.emulator.faults.fault import Fault
from faregate.merchant.wire import INSTRUCTIONS
from faregate.service.replies import Refusal
from faregate.x402.instructions import without_challenge

GARBAGE: Final = b"<html>\x00\xff\xfe{This is not JSON."
MESSAGE: Final = "the emulator was told to answer like this"
_CODES: Final = {401: "unauthenticated", 402: "payment_required", 403: "forbidden"}
_NOT_FOUND: Final = {
    "complete": "transaction_not_found",
    "transaction": "transaction_not_found",
    "execution": "resource_execution_not_found",
}


def garbage(said: Response) -> Response:
    """With a body that is not JSON; its headers say nothing of it."""
    return replace(said, body=GARBAGE)


def without(headers: Headers, name: str) -> Headers:
    return tuple(pair for pair in headers if pair[0].lower() != name.lower())


def doubled(said: Response, header: str, value: str | None) -> Response:
    for name, found in said.headers:
        if name.lower() == header.lower():
            return said.plus((name, found if value is None else value))
    return said


def changed(said: Response, fields: dict[str, JsonValue]) -> Response:
    body = json.loads(said.body)
    if not isinstance(body, dict):
        return said
    changed = json.dumps({**body, **fields}, ensure_ascii=False, separators=(",", ":"))
    return replace(said, body=changed.encode())


def guessable(said: Response) -> Response:
    """With instructions that are the same for everybody; a reply without instructions stays as it is."""
    headers = (
        (name, without_challenge(value) if name.lower() == INSTRUCTIONS else value)
        for name, value in said.headers
    )
    return replace(said, headers=tuple(headers))


def refusal(fault: Fault, facts: Facts) -> Response:
    status = fault.status or 500
    code = "internal_error" if status >= 500 else _CODES.get(status, "invalid_request")
    if status == 404:
        code = _NOT_FOUND.get(facts.operation or "", code)
    headers = () if fault.retry_after is None else (("Retry-After", str(fault.retry_after)),)
    return Refusal(status, code, MESSAGE, headers).response()
