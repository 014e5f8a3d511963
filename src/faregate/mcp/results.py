"""Translate between the results of tools, as they are on the wire, and responses. Pure.

Rules
- A tool's result is buffered as a JSON body under a status of ours, and marked as the tool's own.
- A response that is not the tool's own becomes an error (`isError`): its JSON is the text, and the
  structured content where no client would take that for the tool's output.
- What a payer has to pay is the text's only content, as x402's MCP transport defines it.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

from mcp_types import JSONRPCResponse
from pydantic import BaseModel

from faregate.core.models import Header, Headers, Response
from faregate.core.responses import build_settling

PAYMENT_RESPONSE = "x402/payment-response"
"""The key of the receipt in the `_meta` of a result."""

Result = dict[str, Any]
"""A result on the wire: `content`, `structuredContent`, `isError`, `_meta`, `resultType`."""

_OWN: Header = ("MCP-Result", "tool")
HEADERS: Headers = (("Content-Type", "application/json"), _OWN)

_COMPLETE, _ERROR, _NOT_YET = 200, 500, 300


def find_status(result: Mapping[str, Any]) -> int:
    """The status of a result: only 200 can be sold. 300 is a question to the client, and no result yet."""
    if is_question(result):
        return _NOT_YET
    return _ERROR if result.get("isError") else _COMPLETE


def is_question(result: Mapping[str, Any]) -> bool:
    """Whether it asks the client for more (`InputRequiredResult`), and is not a result yet."""
    return bool(result.get("resultType", "complete") != "complete")


def write_body(result: Result) -> bytes:
    """Write a result as a body. Raises `ValueError` if the SDK could not send the result."""
    # As the SDK does later, after the payment: it has no form for lone surrogates and deep nesting.
    JSONRPCResponse(jsonrpc="2.0", id=0, result=result).model_dump_json(by_alias=True, exclude_unset=True)
    return json.dumps(result, separators=(",", ":")).encode()


def check_output(result: Result, schema: Mapping[str, Any]) -> None:
    """Raise `ValueError` for structured content that clients refuse, as the SDK's own does.

    The SDK checks what a tool returns, and makes JSON of it afterwards: NaN is a number, and null in JSON.
    """
    if result.get("structuredContent") is None:
        return
    error = next(_compile(json.dumps(schema)).iter_errors(result["structuredContent"]), None)
    if error is not None:  # its message has the result
        place = "/".join(map(str, error.absolute_schema_path))
        raise ValueError(f"its structured content does not fit the output schema, at {place}")


@lru_cache(maxsize=256)
def _compile(schema: str) -> Any:
    validators: Any = import_module("jsonschema.validators")  # which the SDK needs; it has no types
    parsed = json.loads(schema)
    return validators.validator_for(parsed)(parsed)


def build_result(response: Response, envelope: Result, *, structured: bool) -> Result:
    """Build what the client gets of a response that a checkout gave.

    `envelope` is what every result of this server has on this connection. With `structured` False, what the
    paywall says is not put into the structured content.
    """
    if response.first(_OWN[0].lower()) == _OWN[1]:
        return _build_own(response, envelope)
    required = _decode(response.first("payment-required")) if response.status == 402 else {}
    refusal = _read_refusal(response)
    objects = [required or refusal]
    if required and "transaction_id" in refusal:
        objects.append(refusal)  # that an earlier payment was not taken
    content = [{"type": "text", "text": json.dumps(content_object)} for content_object in objects]
    built: Result = {**envelope, "content": content, "isError": True}
    return {**built, "structuredContent": objects[0]} if structured else built


def _build_own(response: Response, envelope: Result) -> Result:
    result: Result = json.loads(response.body)
    # The envelope comes last: a tool cannot speak for its server.
    meta: Result = {**(result.pop("_meta", None) or {}), **envelope.get("_meta", {})}
    receipt = _decode(response.first("payment-response"))
    if receipt:
        meta[PAYMENT_RESPONSE] = receipt
    else:
        meta.pop(PAYMENT_RESPONSE, None)  # a tool cannot say that it was paid
    return {**result, **envelope, "_meta": meta} if meta else {**result, **envelope}


def _read_refusal(response: Response) -> Result:
    """The JSON of a response without a result, with what HTTP would say in its status and headers."""
    answer = _parse(response.body)
    if response.status == 202 and "code" not in answer:
        # The service's own words, which say no more than how far it is: the client may be a language model.
        answer = {**_parse(build_settling(None).body), **answer}
    answer["http_status"] = response.status
    wait = response.first("retry-after")
    return {**answer, "retry_after": int(wait)} if wait is not None and wait.isdecimal() else answer


def _decode(header: str | None) -> Result:
    """The object that a payment header holds; {} if there is none."""
    try:
        return _parse(b64decode(header or ""))
    except ValueError:
        return {}


def _parse(text: bytes) -> Result:
    try:
        value: object = json.loads(text)
    except ValueError:
        return {}
    return cast(Result, value) if isinstance(value, dict) else {}


def dump_result(result: Any) -> Result:
    """A result on the wire, which a middleware may have made of anything that the SDK takes."""
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(result or {})
