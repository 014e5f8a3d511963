"""How a paid operation is documented: 402 and 202 with their headers. Works on the plain schema.

A paid operation is known by its `PAYMENT-SIGNATURE` header parameter, which `faregate.fastapi.paid`
declares.
"""

from typing import Any

SIGNATURE = "PAYMENT-SIGNATURE"

_STRING = {"type": "string"}
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
            if _is_paid(operation):
                _document(operation)
    return schema


def _is_paid(operation: Any) -> bool:
    return hasattr(operation, "get") and any(
        parameter.get("in") == "header" and parameter.get("name") == SIGNATURE
        for parameter in operation.get("parameters", ())
    )


def _document(operation: dict[str, Any]) -> None:
    responses = operation.setdefault("responses", {})
    for status, response in responses.items():
        if status.startswith("2") and status != "202":
            response.setdefault("headers", {}).setdefault("PAYMENT-RESPONSE", _PAYMENT_RESPONSE)
    for status, response in _RESPONSES.items():
        responses.setdefault(status, response)
