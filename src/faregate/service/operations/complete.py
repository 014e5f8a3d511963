"""`POST /merchant/v1/transactions/{id}/complete` (spec: Endpoints, States; DESIGN section 6).

Rules, in this order. An unknown transaction is 404, another proof than the authorized one 422, another
revision 409. The first completion decides: outcome and values stand for ever. The same again is
answered with how things stand now; another outcome or other values are 409.
"""

from pydantic import TypeAdapter

from faregate.core.models import Response
from faregate.merchant.answers import ResourceExecutionCompleted
from faregate.merchant.requests import (
    FailedCompleteRequest,
    ResourceExecutionCompleteRequest,
    SucceededCompleteRequest,
    complete_request,
)
from faregate.service.config import Revision
from faregate.service.http import SOON, Call, Refusal, answer, invalid
from faregate.service.operations.access import PROOF_HEADER
from faregate.service.receipts import completion
from faregate.service.records import PENDING, TransactionRecord
from faregate.service.settlement import fail, read, submit
from faregate.service.state import Books
from faregate.x402.headers import BadProof, read_payment
from faregate.x402.models import Payment

Request = FailedCompleteRequest | SucceededCompleteRequest


def complete(books: Books, call: Call) -> Response:
    payment = _payment(call)
    request = call.body_as(complete_request)
    record = known_transaction(books, call.identifier)
    if record.payment.header != payment.header:
        raise invalid("PAYMENT-SIGNATURE is not the payment this transaction was authorized with")
    if record.sale.revision.id != request.revision_id:
        raise Refusal(409, "revision_mismatch", "the transaction was authorized for another revision")
    if record.accepted is None:
        _accept(books, record, request)
    else:
        _repeat(books, record, record.accepted, request)
    return _result(record)


def known_transaction(books: Books, identifier: str) -> TransactionRecord:
    """The transaction with this id in this environment, or 404."""
    record = books.transactions.get(identifier)
    if record is None:
        raise Refusal(404, "transaction_not_found", "there is no such transaction in this environment")
    return record


def _payment(call: Call) -> Payment:
    proof = call.only_header(PROOF_HEADER)
    if proof is None:
        raise invalid("PAYMENT-SIGNATURE header is required")
    try:
        return read_payment(proof)
    except BadProof as error:
        raise invalid(f"PAYMENT-SIGNATURE: {error}") from None


def _accept(books: Books, record: TransactionRecord, request: Request) -> None:
    if isinstance(request, SucceededCompleteRequest):
        _check_values(request, record.sale.revision.rules)
        record.accepted = request
        submit(books, record)
    else:
        record.accepted = request
        fail(books, record, books.timeline.stamp())


def _repeat(books: Books, record: TransactionRecord, accepted: Request, request: Request) -> None:
    if accepted.outcome != request.outcome:
        raise invalid("the transaction was already completed with another outcome", 409)
    if _values(accepted) != _values(request):
        raise invalid("the transaction was already completed with other values", 409)
    read(books, record)


def _values(request: Request) -> dict[str, str]:
    return request.values if isinstance(request, SucceededCompleteRequest) else {}


def _check_values(request: SucceededCompleteRequest, rules: Revision) -> None:
    """Every required value, and none the revision does not name; 422 leaves the transaction open."""
    for value in rules.values:
        if value.required and value.name not in request.values:
            raise invalid(f"values.{value.name} is required by the revision")
    names = {value.name for value in rules.values}
    for name in request.values:
        if name not in names:
            raise invalid(f"values.{name} is not a value of the revision")


def _result(record: TransactionRecord) -> Response:
    result = completion(record)
    if record.status in PENDING:
        return answer(result, status=202, headers=(SOON,))
    if result.payment_response is None:
        return answer(result)
    return answer(result, headers=(("PAYMENT-RESPONSE", result.payment_response),))


_request: TypeAdapter[ResourceExecutionCompleteRequest] = TypeAdapter(ResourceExecutionCompleteRequest)


def complete_execution(books: Books, call: Call) -> Response:
    """The same metadata again is the same answer; other metadata is a conflict."""
    request = call.body_as(_request)
    record = books.executions.get(call.identifier)
    if record is None:
        raise Refusal(404, "resource_execution_not_found", "there is no such free execution here")
    if record.revision_id != request.revision_id:
        raise Refusal(409, "revision_mismatch", "the execution was allowed for another revision")
    if record.metadata not in (None, request.resource_execution):
        raise Refusal(409, "resource_execution_conflict", "other metadata was already accepted")
    record.metadata = request.resource_execution
    return answer(ResourceExecutionCompleted(resource_execution_id=record.id))
