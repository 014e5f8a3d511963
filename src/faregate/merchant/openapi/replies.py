"""The possible responses of the service: statuses, headers, error codes (spec: Endpoints, Errors). Pure.

Every operation can be 401, 403 and 500. Statuses that the spec does not show for access and
transaction completion are those of the list endpoints
(docs/service-openapi.md, "Where the specification is silent").
"""

from collections.abc import Mapping
from typing import Final

from faregate.merchant.openapi.schemas import Json, ref
from faregate.merchant.problems import DESCRIPTIONS, PROBLEMS, Problem

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
    "WWW-Authenticate": {"description": "How to authenticate.", "schema": {"type": "string", "minLength": 1}},
}


def build_problems() -> Json:
    """Build the error responses by component name."""
    return {name: _build_problem(name, description) for name, description in DESCRIPTIONS.items()}


def reference_problems(*problems: Problem) -> Json:
    """Build references to the responses of these errors, by status."""
    return {str(problem.status): {"$ref": _RESPONSE + problem.component} for problem in problems}


def reply(description: str, schema: Json, *headers: str) -> Json:
    """A response with a JSON body."""
    told = {"headers": {name: {"$ref": _HEADER + name} for name in headers}} if headers else {}
    return {"description": description, **told, "content": {"application/json": {"schema": schema}}}


def narrow_schema(name: str, properties: Json) -> Json:
    """Build the schema of this name, some of its properties narrowed further."""
    return {"allOf": [ref(name), {"properties": properties}]}


def _build_problem(name: str, description: str) -> Json:
    problems = [problem for problem in PROBLEMS if problem.component == name]
    codes = [problem.code for problem in problems]
    return reply(
        description, narrow_schema("ApiErrorSchema", {"code": {"enum": codes}}), *problems[0].headers
    )
