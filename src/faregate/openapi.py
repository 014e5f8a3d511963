"""How a paid operation is documented: 402 and 202 with their headers. Works on the plain schema.

A paid operation is marked by a security requirement of the name `MARK`, which `faregate.fastapi.paid`
declares. The mark is taken away: a proof of payment is not authentication (spec: Authentication).
"""

from typing import Any

MARK = "PAYMENT-SIGNATURE"

_STRING = {"type": "string"}
_SIGNATURE = {
    "name": "PAYMENT-SIGNATURE",
    "in": "header",
    "required": False,
    "description": "Base64 proof of an x402 version 2 payment, made by the payer.",
    "schema": _STRING,
}
_BODY = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": _STRING, "message": _STRING, "transaction_id": _STRING},
}
_RETRY = {"description": "Seconds to wait before coming back.", "schema": _STRING}
_RESPONSES: dict[str, Any] = {
    "402": {
        "description": "Payment required. Pay as the instructions say and repeat the request.",
        "headers": {
            "PAYMENT-REQUIRED": {
                "description": "Base64 of the x402 version 2 payment instructions.",
                "schema": _STRING,
            },
            "Retry-After": _RETRY,
        },
        "content": {"application/json": {"schema": _BODY}},
    },
    "202": {
        "description": "The payment is still settling. Repeat the request with the same payment.",
        "headers": {"Retry-After": _RETRY},
        "content": {"application/json": {"schema": _BODY}},
    },
}
_PAYMENT_RESPONSE = {"description": "Base64 proof of the settled payment.", "schema": _STRING}


def with_payments(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, its paid operations completed in place. Doing it twice changes nothing."""
    for path in schema.get("paths", {}).values():
        for operation in path.values():
            if hasattr(operation, "get") and _unmarked(operation):
                _document(operation)
    schema.get("components", {}).get("securitySchemes", {}).pop(MARK, None)
    return schema


def _unmarked(operation: dict[str, Any]) -> bool:
    """Takes the mark of a paid operation away; False if there was none."""
    marked = [requirement for requirement in operation.get("security", ()) if MARK in requirement]
    for requirement in marked:
        del requirement[MARK]
        if not requirement:
            operation["security"].remove(requirement)
    if marked and not operation["security"]:
        del operation["security"]
    return bool(marked)


def _document(operation: dict[str, Any]) -> None:
    operation.setdefault("parameters", []).append(_SIGNATURE)
    responses = operation.setdefault("responses", {})
    for status, response in responses.items():
        if status.startswith("2") and status != "202":
            response.setdefault("headers", {}).setdefault("PAYMENT-RESPONSE", _PAYMENT_RESPONSE)
    for status, response in _RESPONSES.items():
        responses.setdefault(status, response)
