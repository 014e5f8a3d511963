"""Each of the eight operations as a value: the request to send and how to read its reply. Pure.

`Call.read` gives the contract's answer or raises the contract's error (`faregate.errors`). Which
transport or key is used is not known here.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from faregate.core.models import Headers, Response, WireRequest
from faregate.errors import BadAnswer, PaymentPending, PaymentRequired, api_error
from faregate.merchant.models import (
    AccessDecision,
    AccessRequest,
    CompletionResult,
    ContractsDocument,
    ContractsQuery,
    ErrorBody,
    FailedCompleteRequest,
    ListQuery,
    Page,
    Payer,
    Resource,
    ResourceExecutionCompleted,
    ResourceExecutionCompleteRequest,
    ResourceQuery,
    SucceededCompleteRequest,
    Transaction,
    TransactionDetail,
    TransactionQuery,
)

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

ROOT = "/merchant/v1"
PROOF = "PAYMENT-SIGNATURE"
INSTRUCTIONS = "payment-required"
PAYMENT_RESPONSE = "payment-response"
_JSON: Headers = (("Content-Type", "application/json"),)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One operation: what to send, and what its reply means."""

    request: WireRequest
    read: Callable[[Response], T]


@dataclass(frozen=True, slots=True)
class Completed:
    """Answer of complete. `payment_response` is the header, to be handed to the payer unchanged."""

    result: CompletionResult
    payment_response: str | None


def access(request: AccessRequest, proof: str | None = None) -> Call[AccessDecision]:
    """`POST /access`. Raises `PaymentRequired` on 402 and `PaymentPending` on 202."""
    return Call(with_proof(_post("/access", request), proof), _read_access)


def build_completion(transaction_id: str, body: bytes, proof: str) -> WireRequest:
    """The request of `complete_transaction` with a body that is written already."""
    path = f"{ROOT}/transactions/{_segment(transaction_id)}/complete"
    return WireRequest("POST", path, (*_JSON, (PROOF, proof)), body)


def complete_transaction(
    transaction_id: str, request: FailedCompleteRequest | SucceededCompleteRequest, proof: str
) -> Call[Completed]:
    """`POST /transactions/{id}/complete`. 200 and 202 are answers; look at `result.status`."""
    body = request.model_dump_json(exclude_none=True).encode()
    return Call(build_completion(transaction_id, body, proof), _read_complete)


def get_transaction(transaction_id: str) -> Call[TransactionDetail]:
    """`GET /transactions/{id}`."""
    return Call(_get(f"/transactions/{_segment(transaction_id)}"), _reader(TransactionDetail))


def list_transactions(query: TransactionQuery) -> Call[Page[Transaction]]:
    """`GET /transactions`."""
    return Call(_get("/transactions", query), _reader(Page[Transaction]))


def list_payers(query: ListQuery) -> Call[Page[Payer]]:
    """`GET /payers`."""
    return Call(_get("/payers", query), _reader(Page[Payer]))


def list_resources(query: ResourceQuery) -> Call[Page[Resource]]:
    """`GET /resources`."""
    return Call(_get("/resources", query), _reader(Page[Resource]))


def list_contracts(include_integration_key: bool = False) -> Call[ContractsDocument]:
    """`GET /contracts`."""
    query = ContractsQuery(include_integration_key=include_integration_key or None)
    return Call(_get("/contracts", query), _reader(ContractsDocument))


def complete_resource_execution(
    resource_execution_id: str, request: ResourceExecutionCompleteRequest
) -> Call[ResourceExecutionCompleted]:
    """`POST /resource-executions/{id}/complete`."""
    path = f"/resource-executions/{_segment(resource_execution_id)}/complete"
    return Call(_post(path, request), _reader(ResourceExecutionCompleted))


def next_page(page: Page[T], call: Call[Page[T]]) -> Call[Page[T]] | None:
    """The call for the following page, its address unchanged; None after the last."""
    return Call(WireRequest("GET", page.next), call.read) if page.next else None


def _get(path: str, query: BaseModel | None = None) -> WireRequest:
    asked = query.model_dump(mode="json", exclude_none=True) if query else {}
    pairs = {name: str(value).lower() if isinstance(value, bool) else value for name, value in asked.items()}
    return WireRequest("GET", f"{ROOT}{path}{'?' + urlencode(pairs) if pairs else ''}")


def _post(path: str, body: BaseModel) -> WireRequest:
    content = body.model_dump_json(exclude_none=True).encode()
    return WireRequest("POST", ROOT + path, _JSON, content)


def _segment(identifier: str) -> str:
    # An id is one path segment whatever it holds; a wrong one is for the service to refuse.
    return quote(identifier, safe="")


def with_proof(request: WireRequest, proof: str | None) -> WireRequest:
    """The same call with the payer's proof, forwarded unchanged."""
    if proof is None:
        return request
    return WireRequest(request.method, request.path, (*request.headers, (PROOF, proof)), request.body)


def _reader(model: type[M]) -> Callable[[Response], M]:
    def read(reply: Response) -> M:
        if reply.status != 200:
            raise parse_error(reply)
        return parse(model, reply)

    return read


def _read_access(reply: Response) -> AccessDecision:
    if reply.status == 202:
        raise PaymentPending(_find_pending_id(reply), reply.first("retry-after"))
    return _reader(AccessDecision)(reply)


def _read_complete(reply: Response) -> Completed:
    if reply.status not in (200, 202):
        raise parse_error(reply)
    return Completed(parse(CompletionResult, reply), reply.first(PAYMENT_RESPONSE))


def parse(model: type[M], reply: Response) -> M:
    """The body as `model`, or `BadAnswer` naming the first thing wrong (never the body itself)."""
    try:
        answer = model.model_validate_json(reply.body)
        json.loads(reply.body, object_pairs_hook=_check_unique_names)
        return answer
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"HTTP {reply.status}: not a {model.__name__}: {_first_fault(error)}") from None


def parse_object(reply: Response) -> dict[str, Any]:
    """The body as a JSON object, or `BadAnswer`. What is in it is for the caller to look at."""
    try:
        # Strict, and bounded in depth whatever the process has set as its recursion limit.
        found = from_json(reply.body, allow_inf_nan=False)
        # What was read, written again, has every name once. If the reply is just that, so has the reply.
        if to_json(found) != reply.body:
            json.loads(reply.body, object_pairs_hook=_check_unique_names)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"HTTP {reply.status}: not a JSON object: {_first_fault(error)}") from None
    if not isinstance(found, dict):
        raise BadAnswer(f"HTTP {reply.status}: not a JSON object")
    return cast("dict[str, Any]", found)


def _check_unique_names(pairs: list[tuple[str, object]]) -> None:
    """Of two values of one name some readers take the first, some the last: nothing is said then."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("one name has two values")


def _first_fault(error: Exception) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _find_pending_id(reply: Response) -> str | None:
    """The transaction id of a 202 body, if it has one: the spec shows no such body for access."""
    try:
        return parse(AccessDecision, reply).transaction_id
    except BadAnswer:
        return None


def parse_error(reply: Response) -> Exception:
    """The contract's error in this reply; `BadAnswer` if the body is not an error body."""
    try:
        body = parse(ErrorBody, reply)
    except BadAnswer as error:
        if reply.status < 400:
            return error
        body = ErrorBody(code="unknown", message="the service gave no readable error body")
    found = api_error(reply.status, body.code, body.message, reply.first("retry-after"))
    if isinstance(found, PaymentRequired):
        found.instructions = reply.first(INSTRUCTIONS)
    return found
