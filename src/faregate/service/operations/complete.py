"""The two completions: of a transaction, and of a free execution (spec: Endpoints, States).

The rules for a transaction in their order. Unknown: 404. Another proof than the authorized one: 422. Another
revision: 409. The first completion fixes outcome and values. The same one again is answered with the current
status; another outcome or other values are 409.
"""

from pydantic import TypeAdapter

from faregate.core.models import Response
from faregate.merchant.models import (
    FailedCompleteRequest,
    ResourceExecutionCompleted,
    ResourceExecutionCompleteRequest,
    SucceededCompleteRequest,
    complete_request,
)
from faregate.merchant.problems import (
    EXECUTION_CONFLICT,
    EXECUTION_MISMATCH,
    EXECUTION_NOT_FOUND,
    OUTCOME_CONFLICT,
    TRANSACTION_MISMATCH,
    TRANSACTION_NOT_FOUND,
)
from faregate.service.config import Revision
from faregate.service.http import RETRY_SOON, HttpError, ParsedRequest, invalid_request, json_response
from faregate.service.operations.access import PROOF_HEADER
from faregate.service.receipts import build_completion
from faregate.service.records import PENDING, TransactionRecord
from faregate.service.settlement import count_read, fail_payment, submit
from faregate.service.state import EnvironmentState
from faregate.x402.headers import InvalidPayload, parse_payment
from faregate.x402.models import SignedPayment

Request = FailedCompleteRequest | SucceededCompleteRequest


def complete(store: EnvironmentState, call: ParsedRequest) -> Response:
    payment = _read_payment(call)
    request = call.body_as(complete_request)
    record = find_transaction(store, call.identifier)
    # Compared byte by byte: the authorization alone is public once it is settled.
    if record.payment.header != payment.header:
        raise invalid_request("PAYMENT-SIGNATURE is not the payment this transaction was authorized with")
    if record.context.revision.id != request.revision_id:
        raise HttpError(TRANSACTION_MISMATCH, "the transaction was authorized for another revision")
    if record.accepted is None:
        _accept_outcome(store, record, request)
    else:
        _repeat_outcome(store, record, record.accepted, request)
    return _build_response(record)


def find_transaction(store: EnvironmentState, identifier: str) -> TransactionRecord:
    """Return the transaction with this id; 404 if this environment has none."""
    record = store.transactions.get(identifier)
    if record is None:
        raise HttpError(TRANSACTION_NOT_FOUND, "there is no such transaction in this environment")
    return record


def _read_payment(call: ParsedRequest) -> SignedPayment:
    proof = call.only_header(PROOF_HEADER)
    if proof is None:
        raise invalid_request("PAYMENT-SIGNATURE header is required")
    try:
        return parse_payment(proof)
    except InvalidPayload as error:
        raise invalid_request(f"PAYMENT-SIGNATURE: {error}") from None


def _accept_outcome(store: EnvironmentState, record: TransactionRecord, request: Request) -> None:
    # The outcome is stored before settling, so that a payment never moves without it.
    if isinstance(request, SucceededCompleteRequest):
        _check_values(request, record.context.revision.rules)
        record.accepted = request
        submit(store, record)
    else:
        record.accepted = request
        fail_payment(store, record, store.clock.tick())


def _repeat_outcome(
    store: EnvironmentState, record: TransactionRecord, accepted: Request, request: Request
) -> None:
    if accepted.outcome != request.outcome:
        raise HttpError(OUTCOME_CONFLICT, "the transaction was already completed with another outcome")
    if _get_values(accepted) != _get_values(request):
        raise HttpError(OUTCOME_CONFLICT, "the transaction was already completed with other values")
    count_read(store, record)


def _get_values(request: Request) -> dict[str, str]:
    return request.values if isinstance(request, SucceededCompleteRequest) else {}


def _check_values(request: SucceededCompleteRequest, rules: Revision) -> None:
    """Check that required values are there and no unknown ones; a 422 leaves the transaction open."""
    for value in rules.values:
        if value.required and value.name not in request.values:
            raise invalid_request(f"values.{value.name} is required by the revision")
    names = {value.name for value in rules.values}
    for name in request.values:
        if name not in names:
            raise invalid_request(f"values.{name} is not a value of the revision")


def _build_response(record: TransactionRecord) -> Response:
    result = build_completion(record)
    if record.status in PENDING:
        return json_response(result, status=202, headers=(RETRY_SOON,))
    if result.payment_response is None:
        return json_response(result)
    return json_response(result, headers=(("PAYMENT-RESPONSE", result.payment_response),))


_request: TypeAdapter[ResourceExecutionCompleteRequest] = TypeAdapter(ResourceExecutionCompleteRequest)


def complete_execution(store: EnvironmentState, call: ParsedRequest) -> Response:
    """Store the metadata. The same again gets the same answer, other metadata 409."""
    request = call.body_as(_request)
    record = store.executions.get(call.identifier)
    if record is None:
        raise HttpError(EXECUTION_NOT_FOUND, "there is no such free execution here")
    if record.revision_id != request.revision_id:
        raise HttpError(EXECUTION_MISMATCH, "the execution was allowed for another revision")
    if record.metadata not in (None, request.resource_execution):
        raise HttpError(EXECUTION_CONFLICT, "other metadata was already accepted")
    record.metadata = request.resource_execution
    return json_response(ResourceExecutionCompleted(resource_execution_id=record.id))
