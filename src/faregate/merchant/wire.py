"""Each of the eight operations as a value: the request to send and how to read its reply. Pure.

`Call.read` returns the contract's answer or raises the contract's error (`faregate.errors`). The module
knows neither the transport nor the key.
"""

import json
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError

from faregate.core.models import Response, WireRequest
from faregate.errors import BadAnswer, PaymentPending
from faregate.frozen import frozen
from faregate.merchant.interpret import parse_error
from faregate.merchant.json_text import check_unique_names, describe_fault
from faregate.merchant.models import (
    AccessDecision,
    AccessRequest,
    CompletionResult,
    ContractsDocument,
    ContractsQuery,
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
from faregate.merchant.requests import (
    PAYMENT_RESPONSE,
    ROOT,
    Call,
    build_closing,
    build_completion,
    build_lookup,
    build_post,
    with_proof,
)

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@frozen
class Completed:
    """The answer of complete. `payment_response` is the header, for the payer, unchanged."""

    result: CompletionResult
    payment_response: str | None


def access(request: AccessRequest, proof: str | None = None) -> Call[AccessDecision]:
    """`POST /access`. Raises `PaymentRequired` on 402 and `PaymentPending` on 202."""
    return Call(with_proof(_post("/access", request), proof), _read_access)


def complete_transaction(
    transaction_id: str, request: FailedCompleteRequest | SucceededCompleteRequest, proof: str
) -> Call[Completed]:
    """`POST /transactions/{id}/complete`. 200 and 202 are answers; look at `result.status`."""
    body = request.model_dump_json(exclude_none=True).encode()
    return Call(build_completion(transaction_id, body, proof), _read_complete)


def get_transaction(transaction_id: str) -> Call[TransactionDetail]:
    """`GET /transactions/{id}`."""
    return Call(build_lookup(transaction_id), _build_reader(TransactionDetail))


def list_transactions(query: TransactionQuery) -> Call[Page[Transaction]]:
    """`GET /transactions`."""
    return Call(_get("/transactions", query), _build_reader(Page[Transaction]))


def list_payers(query: ListQuery) -> Call[Page[Payer]]:
    """`GET /payers`."""
    return Call(_get("/payers", query), _build_reader(Page[Payer]))


def list_resources(query: ResourceQuery) -> Call[Page[Resource]]:
    """`GET /resources`."""
    return Call(_get("/resources", query), _build_reader(Page[Resource]))


def list_contracts(include_integration_key: bool = False) -> Call[ContractsDocument]:
    """`GET /contracts`."""
    query = ContractsQuery(include_integration_key=include_integration_key or None)
    return Call(_get("/contracts", query), _build_reader(ContractsDocument))


def complete_resource_execution(
    resource_execution_id: str, request: ResourceExecutionCompleteRequest
) -> Call[ResourceExecutionCompleted]:
    """`POST /resource-executions/{id}/complete`."""
    body = request.model_dump_json(exclude_none=True).encode()
    return Call(build_closing(resource_execution_id, body), _build_reader(ResourceExecutionCompleted))


def next_page(page: Page[T], call: Call[Page[T]]) -> Call[Page[T]] | None:
    """Return the call for the following page, at the address that the service gave; None after the last.

    Raises `BadAnswer` for a page that is its own next: a client that iterates would never end.
    """
    if page.next == call.request.path:
        raise BadAnswer("the service gave a page that names itself as the next one")
    return Call(WireRequest("GET", page.next), call.read) if page.next else None


def _get(path: str, query: BaseModel) -> WireRequest:
    fields = query.model_dump(mode="json", exclude_none=True)
    pairs = {name: str(value).lower() if isinstance(value, bool) else value for name, value in fields.items()}
    return WireRequest("GET", f"{ROOT}{path}{'?' + urlencode(pairs) if pairs else ''}")


def _post(path: str, body: BaseModel) -> WireRequest:
    return build_post(path, body.model_dump_json(exclude_none=True).encode())


def _build_reader(model: type[M]) -> Callable[[Response], M]:
    def read(reply: Response) -> M:
        if reply.status != 200:
            raise parse_error(reply)
        return parse(model, reply)

    return read


def _read_access(reply: Response) -> AccessDecision:
    if reply.status == 202:
        raise PaymentPending(_find_pending_id(reply), reply.first("retry-after"))
    return _build_reader(AccessDecision)(reply)


def _read_complete(reply: Response) -> Completed:
    if reply.status not in (200, 202):
        raise parse_error(reply)
    return Completed(parse(CompletionResult, reply), reply.first(PAYMENT_RESPONSE))


def parse(model: type[M], reply: Response) -> M:
    """Parse a body as `model`. Raises `BadAnswer`, which names the first fault and never shows the body."""
    try:
        answer = model.model_validate_json(reply.body)
        # pydantic accepts a name that occurs twice, and takes the last value.
        json.loads(reply.body, object_pairs_hook=check_unique_names)
        return answer
    except (ValueError, RecursionError) as error:
        raise BadAnswer(
            f"HTTP {reply.status}: not a {model.__name__}: {_describe_first_fault(error)}"
        ) from None


def _describe_first_fault(error: Exception) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"
    return describe_fault(error)


def _find_pending_id(reply: Response) -> str | None:
    """Find the transaction id in a 202 body; None if it has none. The spec shows no such body for access."""
    try:
        return parse(AccessDecision, reply).transaction_id
    except BadAnswer:
        return None
