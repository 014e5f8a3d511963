"""The two completions: of a transaction, and of a free execution (spec: Endpoints, States).

The rules for a transaction in their order. Unknown: 404. Another proof than the authorized one: 422. Another
revision: 409, except where `sells_earlier` is set and it is of the same resource. The first completion fixes
outcome and values, and with them the amount where the price follows the use. The same one again is answered
with the current status; another outcome or other values are 409.

A seller that reports work as interrupted may run on an older copy of its journal, or the service on one of
its books, and the work may have been sold. The chain is asked first; a payment that it has settled succeeds.
"""

import logging
from functools import partial

from pydantic import TypeAdapter

from faregate.core.models import INTERRUPTED, Response
from faregate.merchant.models import (
    CompleteRequest,
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
    UNAVAILABLE,
)
from faregate.rules.account import Revision
from faregate.rules.dependencies import AmountIssue, Dependencies
from faregate.rules.http import RETRY_SOON, HttpError, ParsedRequest, invalid_request, json_response
from faregate.rules.operations.access import PROOF_HEADER
from faregate.rules.payments import PaymentRefused, PaymentSettled, PaymentsUnavailable
from faregate.rules.receipts import build_completion
from faregate.rules.records import FINAL, PENDING, Transaction
from faregate.rules.settlement import answer_repeated_complete, begin_settlement
from faregate.rules.store import Store
from faregate.x402.headers import InvalidPayload, parse_payment
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import format_price
from faregate.x402.usage_prices import UsedAmount, compute_amount

_log = logging.getLogger("faregate.service")


def complete(call: ParsedRequest, deps: Dependencies) -> Response:
    payment = _read_payment(call)
    request = call.body_as(complete_request)
    transaction = find_transaction(call.identifier, deps.store)
    # Compared byte by byte: the authorization alone is public once it is settled.
    if not transaction.is_proof(payment.header):
        raise invalid_request("PAYMENT-SIGNATURE is not the payment this transaction was authorized with")
    if deps.sells_earlier:
        request = _use_authorized_revision(request, transaction, deps.store)
    if transaction.context.revision.id != request.revision_id:
        raise HttpError(TRANSACTION_MISMATCH, "the transaction was authorized for another revision")
    if transaction.accepted is None:
        transaction = _accept_outcome(transaction, request, deps)
    else:
        transaction = _repeat_outcome(transaction, transaction.accepted, request, deps)
    return _build_response(transaction)


def _use_authorized_revision(
    request: CompleteRequest, transaction: Transaction, store: Store
) -> CompleteRequest:
    """Replace the revision of the request by the one that the transaction was authorized for.

    Only another revision of the same resource is replaced.

    Code with a new price may complete a payment of the old price: access repeats its transaction, and the
    process that knew the revision was killed. The values that it reports are those of the new one: what the
    revision of the transaction does not have is left out.
    """
    published = store.find_revision(request.revision_id)
    if published is None or published[0].id != transaction.context.listing.id:
        return request
    authorized_for = transaction.context.revision
    if authorized_for.id == request.revision_id:
        return request
    changes: dict[str, object] = {"revision_id": authorized_for.id}
    if isinstance(request, SucceededCompleteRequest):
        names = {value.name for value in authorized_for.rules.values}
        changes["values"] = {name: value for name, value in request.values.items() if name in names}
    return request.model_copy(update=changes)


def find_transaction(identifier: str, store: Store) -> Transaction:
    """Return the transaction with this id; 404 if this environment has none."""
    transaction = store.find_transaction(identifier)
    if transaction is None:
        raise HttpError(TRANSACTION_NOT_FOUND, "there is no such transaction in this environment")
    return transaction


def _read_payment(call: ParsedRequest) -> SignedPayment:
    proof = call.only_header(PROOF_HEADER)
    if proof is None:
        raise invalid_request("PAYMENT-SIGNATURE header is required")
    try:
        return parse_payment(proof)
    except InvalidPayload as error:
        raise invalid_request(f"PAYMENT-SIGNATURE: {error}") from None


def _accept_outcome(transaction: Transaction, request: CompleteRequest, deps: Dependencies) -> Transaction:
    if isinstance(request, SucceededCompleteRequest):
        _check_values(request, transaction.context.revision.rules)
    elif request.failure_code == INTERRUPTED and transaction.status not in FINAL:
        transaction = _end_if_paid(transaction, deps)
    used = _compute_used(transaction, request)
    # The outcome is stored before settling, so that a payment never moves without it.
    used_atomic = used.settled_atomic if used else None
    begins_attempt = deps.settles_now()
    recorded = deps.store.record_outcome(transaction, request, used_atomic, begins_attempt=begins_attempt)
    if recorded is not None:
        if used is not None and used.exceeded:
            _report_exceeded(transaction, deps)
        return deps.settle(partial(begin_settlement, recorded), recorded, deps)
    # Another call was faster: its outcome counts.
    transaction = find_transaction(transaction.id, deps.store)
    return _repeat_outcome(transaction, transaction.accepted or request, request, deps)


def _end_if_paid(transaction: Transaction, deps: Dependencies) -> Transaction:
    """End a transaction whose payment has settled already; 503 while that is not known.

    A payer whose payment has settled must not be told to pay again.
    """
    payment, terms = transaction.payment, transaction.context.terms
    try:
        is_used = deps.payments.is_used(payment, terms)
    except PaymentsUnavailable:
        raise HttpError(UNAVAILABLE, "the payment cannot be looked for at present", (RETRY_SOON,)) from None
    if not is_used:
        return transaction
    match deps.payments.look(payment, terms, deps.store.read_attempt(transaction)):
        case PaymentSettled(transaction_hash=transaction_hash, amount=amount):
            _log.warning(
                "%s was reported as interrupted, and its payment has settled by %s: it has succeeded",
                transaction.id,
                transaction_hash,
            )
            return deps.store.record_settled(transaction, transaction_hash, None, amount)
        case PaymentRefused():
            return transaction
        case _:
            raise HttpError(UNAVAILABLE, "how the payment has ended is not certain yet", (RETRY_SOON,))


def _compute_used(transaction: Transaction, request: CompleteRequest) -> UsedAmount | None:
    """Return what the reported values cost; None for a fixed price, or if the work failed."""
    price = transaction.context.revision.rules.usage_price
    if price is None or not isinstance(request, SucceededCompleteRequest):
        return None
    return compute_amount(price, request.values)


def _report_exceeded(transaction: Transaction, deps: Dependencies) -> None:
    deps.count_issue(AmountIssue.ABOVE_MAXIMUM)
    _log.warning(
        "%s used more than its payer has authorized: it settles %s, and the rest is not charged",
        transaction.id,
        format_price(transaction.context.terms.amount, transaction.context.terms.token.symbol),
    )


def _repeat_outcome(
    transaction: Transaction, accepted: CompleteRequest, request: CompleteRequest, deps: Dependencies
) -> Transaction:
    if accepted.outcome != request.outcome:
        raise HttpError(OUTCOME_CONFLICT, "the transaction was already completed with another outcome")
    if _get_values(accepted) != _get_values(request):
        raise HttpError(OUTCOME_CONFLICT, "the transaction was already completed with other values")
    return answer_repeated_complete(transaction, deps)


def _get_values(request: CompleteRequest) -> dict[str, str]:
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


def _build_response(transaction: Transaction) -> Response:
    result = build_completion(transaction)
    if transaction.status in PENDING:
        return json_response(result, status=202, headers=(RETRY_SOON,))
    if result.payment_response is None:
        return json_response(result)
    return json_response(result, headers=(("PAYMENT-RESPONSE", result.payment_response),))


_request: TypeAdapter[ResourceExecutionCompleteRequest] = TypeAdapter(ResourceExecutionCompleteRequest)


def complete_execution(call: ParsedRequest, deps: Dependencies) -> Response:
    """Store the metadata. The same again gets the same answer, other metadata 409."""
    request = call.body_as(_request)
    execution = deps.store.find_execution(call.identifier)
    if execution is None:
        raise HttpError(EXECUTION_NOT_FOUND, "there is no such free execution here")
    if execution.revision_id != request.revision_id:
        raise HttpError(EXECUTION_MISMATCH, "the execution was allowed for another revision")
    recorded = deps.store.record_execution(execution, request.resource_execution)
    if recorded.metadata != request.resource_execution:
        raise HttpError(EXECUTION_CONFLICT, "other metadata was already accepted")
    return json_response(ResourceExecutionCompleted(resource_execution_id=execution.id))
