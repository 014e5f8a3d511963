"""The eight operations: what is sent to each, and what comes back (spec: Endpoints, Errors). Pure.

Each is named as in `faregate.merchant.client`. Every operation can be 401, 403, 429, 500 and 503. Statuses
that the spec does not show for access and transaction completion are those of the list endpoints
(docs/service-openapi.md, "Where the specification is silent").
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from faregate.merchant.models import ContractsQuery, ListQuery, ResourceQuery, TransactionQuery
from faregate.merchant.openapi.schemas import Generator, Json, parameters, ref
from faregate.merchant.problems import (
    DESCRIPTIONS,
    EXECUTION_MISMATCH,
    EXECUTION_NOT_FOUND,
    FORBIDDEN,
    INTERNAL_ERROR,
    INVALID,
    MALFORMED,
    PAYMENT_REQUIRED,
    PROBLEMS,
    RATE_LIMITED,
    TRANSACTION_MISMATCH,
    TRANSACTION_NOT_FOUND,
    UNAUTHENTICATED,
    UNAVAILABLE,
    Problem,
)
from faregate.merchant.requests import PROOF, ROOT
from faregate.merchant.types import ResourceExecutionId, TransactionId

# Responses

_BASE64: Final = {"type": "string", "contentEncoding": "base64", "contentMediaType": "application/json"}
_TEXT: Final = {"type": "string", "minLength": 1}
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
        "schema": _TEXT,
    },
    "WWW-Authenticate": {"description": "How to authenticate.", "schema": _TEXT},
}


def build_problems() -> Json:
    """Build the error responses by component name."""
    return {name: _build_problem(name, description) for name, description in DESCRIPTIONS.items()}


def reference_problems(*problems: Problem) -> Json:
    """Build references to the responses of these errors, by status."""
    return {str(problem.status): {"$ref": _RESPONSE + problem.component} for problem in problems}


def reply(description: str, schema: Json, *headers: str) -> Json:
    """A response with a JSON body."""
    described = {"headers": {name: {"$ref": _HEADER + name} for name in headers}} if headers else {}
    return {"description": description, **described, "content": {"application/json": {"schema": schema}}}


def narrow_schema(name: str, properties: Json) -> Json:
    """Build the schema of this name, some of its properties narrowed further."""
    return {"allOf": [ref(name), {"properties": properties}]}


def _build_problem(name: str, description: str) -> Json:
    problems = [problem for problem in PROBLEMS if problem.component == name]
    codes = [problem.code for problem in problems]
    return reply(
        description, narrow_schema("ApiErrorSchema", {"code": {"enum": codes}}), *problems[0].headers
    )


# Operations

_MEANINGS: Final = {
    "as_of": "A stable snapshot for a sequence of pages; not in the future, and with a timezone.",
    "order": "Sort direction.",
    "page": "Page number; the first is 1.",
    "page_size": "Items per page.",
    "status": "Only transactions with this status.",
    "payer_id": "Only transactions of this payer.",
    "archived": "True gives the archived resources instead of the active ones.",
    "include_integration_key": "True adds the resource's integration key and the revision key.",
}
_COMMON: Final = reference_problems(UNAUTHENTICATED, FORBIDDEN, RATE_LIMITED, INTERNAL_ERROR, UNAVAILABLE)
_INVALID: Final = reference_problems(INVALID)
_PENDING: Final = {"status": {"enum": ["settling", "reconciling"]}}


def paths() -> Json:
    """The paths of the document."""
    transaction = f"{ROOT}/transactions/{{transaction_id}}"
    execution = f"{ROOT}/resource-executions/{{resource_execution_id}}/complete"
    return {
        f"{ROOT}/access": {"post": _access()},
        f"{ROOT}/contracts": {"get": _contracts()},
        f"{ROOT}/payers": {"get": _list("list_payers", "List payers", "PayerList", ListQuery)},
        execution: {"post": _complete_execution()},
        f"{ROOT}/resources": {
            "get": _list("list_resources", "List resources", "ResourceList", ResourceQuery)
        },
        f"{ROOT}/transactions": {
            "get": _list("list_transactions", "List transactions", "TransactionList", TransactionQuery)
        },
        transaction: {"get": _get_transaction()},
        f"{transaction}/complete": {"post": _complete_transaction()},
    }


def _access() -> Json:
    waiting = narrow_schema("AccessDecision", {"transaction_id": {"type": "string"}})
    return _operation(
        "access",
        "Authorize resource access",
        {
            "200": reply("The app may return the resource.", ref("AccessDecision")),
            "202": reply("The payment is settling or reconciling.", waiting, "Retry-After"),
            **reference_problems(PAYMENT_REQUIRED, MALFORMED, INVALID),
        },
        parameters=[_proof(required=False)],
        body="AccessRequest",
    )


def _complete_transaction() -> Json:
    waiting = narrow_schema("CompletionResult", _PENDING)
    return _operation(
        "complete_transaction",
        "Complete a transaction",
        {
            "200": reply("How the payment ended.", ref("CompletionResult"), "PAYMENT-RESPONSE"),
            "202": reply("The payment is settling or reconciling.", waiting, "Retry-After"),
            **reference_problems(TRANSACTION_NOT_FOUND, TRANSACTION_MISMATCH, MALFORMED, INVALID),
        },
        parameters=[_identifier("transaction_id", TransactionId), _proof(required=True)],
        body="CompleteRequest",
    )


def _complete_execution() -> Json:
    return _operation(
        "complete_resource_execution",
        "Complete a free resource execution",
        {
            "200": reply("The metadata is retained.", ref("ResourceExecutionCompleted")),
            **reference_problems(EXECUTION_NOT_FOUND, EXECUTION_MISMATCH, MALFORMED, INVALID),
        },
        parameters=[_identifier("resource_execution_id", ResourceExecutionId)],
        body="ResourceExecutionCompleteRequest",
    )


def _get_transaction() -> Json:
    return _operation(
        "get_transaction",
        "Get a transaction",
        {
            "200": reply("The transaction as it stands.", ref("TransactionDetailSchema")),
            **reference_problems(TRANSACTION_NOT_FOUND),
        },
        parameters=[_identifier("transaction_id", TransactionId)],
    )


def _contracts() -> Json:
    response = reply("The active contract revisions.", ref("ContractsDocumentSchema"))
    parameters = _build_parameters(ContractsQuery)
    return _operation(
        "list_contracts", "List access contracts", {"200": response, **_INVALID}, parameters=parameters
    )


def _list(name: str, summary: str, schema: str, query: type[BaseModel]) -> Json:
    answers = {"200": reply("One page.", ref(schema)), **_INVALID}
    return _operation(name, summary, answers, parameters=_build_parameters(query))


def _operation(
    name: str, summary: str, answers: Json, *, parameters: list[Json], body: str | None = None
) -> Json:
    content = {"application/json": {"schema": ref(body)}} if body else None
    sent = {"requestBody": {"required": True, "content": content}} if content else {}
    responses = dict(sorted({**answers, **_COMMON}.items()))
    return {"operationId": name, "summary": summary, "parameters": parameters, **sent, "responses": responses}


def _build_parameters(query: type[BaseModel]) -> list[Json]:
    return [
        {"name": name, "in": "query", "description": _MEANINGS[name], "schema": schema}
        for name, schema in parameters(query).items()
    ]


def _identifier(name: str, kind: Any) -> Json:
    schema = TypeAdapter(kind).json_schema(schema_generator=Generator)
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _proof(*, required: bool) -> Json:
    return {
        "name": PROOF,
        "in": "header",
        "required": required,
        "description": "The payer's proof of payment, forwarded unchanged.",
        "schema": _BASE64,
    }
