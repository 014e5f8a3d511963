"""What the service may answer: statuses, headers, error codes (spec: Endpoints, Errors). Pure.

Every operation can be 401, 403 and 500. Statuses that the spec does not show for access and
transaction completion are those of the list endpoints (DESIGN section 6).
"""

from collections.abc import Mapping
from typing import Final

from faregate.merchant.openapi.schemas import Json, ref

_BASE64: Final = {"type": "string", "contentEncoding": "base64", "contentMediaType": "application/json"}
_HEADER: Final = "#/components/headers/"
_RESPONSE: Final = "#/components/responses/"

HEADERS: Final[Mapping[str, Json]] = {
    "PAYMENT-REQUIRED": {
        "description": "The payment instructions, to be relayed to the payer unchanged.",
        "required": True,
        "schema": _BASE64,
    },
    "PAYMENT-RESPONSE": {
        "description": "The proof of payment, to be returned to the payer unchanged. "
        "There exactly when `status` is `succeeded`.",
        "schema": _BASE64,
    },
    "Retry-After": {
        "description": "Seconds to wait, or a date to wait for, before the next try.",
        "schema": {"type": "string", "minLength": 1},
    },
    "WWW-Authenticate": {
        "description": "How to authenticate.",
        "schema": {"type": "string", "minLength": 1},
    },
}

_UNAUTHENTICATED: Final = "The API key is missing or not valid."
_CONFLICT: Final = "The revision differs from the one that was authorized, or {}."
_PROBLEMS: Final[Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "Malformed": ("The body is not JSON.", ("invalid_request",), ()),
    "Unauthenticated": (_UNAUTHENTICATED, ("unauthenticated",), ("WWW-Authenticate",)),
    "PaymentRequired": (
        "Payment is required and no acceptable proof was sent.",
        ("payment_required",),
        ("PAYMENT-REQUIRED", "Retry-After"),
    ),
    "Forbidden": ("The key does not allow the operation.", ("forbidden",), ()),
    "TransactionNotFound": ("The transaction is not known.", ("transaction_not_found",), ()),
    "ExecutionNotFound": ("The execution is not known.", ("resource_execution_not_found",), ()),
    "TransactionConflict": (
        _CONFLICT.format("another outcome or other values were accepted before"),
        ("revision_mismatch", "invalid_request"),
        (),
    ),
    "ExecutionConflict": (
        _CONFLICT.format("other metadata was accepted before"),
        ("revision_mismatch", "resource_execution_conflict"),
        (),
    ),
    "Invalid": ("A parameter, a header or the body breaks a rule.", ("invalid_request",), ()),
    "InternalError": ("The service failed.", ("internal_error",), ()),
}


def problems() -> Json:
    """The error responses by name."""
    return {name: _problem(*told) for name, told in _PROBLEMS.items()}


def problem(name: str) -> Json:
    """A reference to the error response of this name."""
    return {"$ref": _RESPONSE + name}


def reply(description: str, schema: Json, *headers: str) -> Json:
    """A response with a JSON body."""
    told = {"headers": {name: {"$ref": _HEADER + name} for name in headers}} if headers else {}
    return {"description": description, **told, "content": {"application/json": {"schema": schema}}}


def narrowed(name: str, properties: Json) -> Json:
    """The schema of this name, some of its properties narrowed further."""
    return {"allOf": [ref(name), {"properties": properties}]}


def _problem(description: str, codes: tuple[str, ...], headers: tuple[str, ...]) -> Json:
    return reply(description, narrowed("ApiErrorSchema", {"code": {"enum": list(codes)}}), *headers)
