"""POST /merchant/v1/transactions/{id}/complete: errors, results, and completing again.

The completions that should be refused leave the transaction pending. Should a service accept one, only
those that leave out a value would cost anything; all others report failure.
"""

from collections.abc import Mapping

from faregate.core.models import Response
from faregate.core.results import CompletionPaid, CompletionUnpaid
from faregate.errors import BadAnswer
from faregate.merchant.interpret import parse_completion
from faregate.merchant.models import CompletionResult
from faregate.merchant.wire import parse
from faregate.probe.check import Check, Observation, SkipCheck, describe, get_field, judge, judge_error
from faregate.probe.fixtures import ProbeRun
from faregate.probe.session import make_unknown_id
from faregate.rules.records import PENDING


def _check_unknown_transaction(run: ProbeRun) -> Observation:
    transaction = run.session.get_pending()
    path = f"/transactions/{make_unknown_id('txn')}/complete"
    response = run.session.client.post(path, transaction.build_failure(), proof=transaction.proof)
    return judge_error(response, 404, "transaction_not_found")


def _check_no_proof(run: ProbeRun) -> Observation:
    transaction = run.session.get_pending()
    response = run.session.complete_with(transaction, transaction.build_failure(), None)
    return judge_error(response, 422, "invalid_request")


def _check_other_proof(run: ProbeRun) -> Observation:
    transaction = run.session.get_pending()
    other = run.session.sign(transaction.product)
    response = run.session.complete_with(transaction, transaction.build_failure(), other)
    return judge_error(response, 422, "invalid_request")


def _check_not_json(run: ProbeRun) -> Observation:
    return judge_error(run.session.complete(run.session.get_pending(), b"{"), 400, "invalid_request")


def _check_other_revision(run: ProbeRun) -> Observation:
    transaction = run.session.get_pending()
    own = transaction.product.revision.revision_id
    other = next(
        (revision.revision_id for revision in run.session.catalog.revisions if revision.revision_id != own),
        None,
    )
    if other is None:
        raise SkipCheck("there is only one active revision")
    response = run.session.complete(transaction, transaction.build_failure(revision_id=other))
    return judge_error(response, 409, "revision_mismatch")


def _check_no_values(run: ProbeRun) -> Observation:
    transaction = run.session.get_pending()
    # Success without values; a service that accepts it charges for one purchase.
    body = transaction.build_success()
    del body["values"]
    return judge_error(run.session.complete(transaction, body), 422, "invalid_request")


def _check_required_value(run: ProbeRun) -> Observation:
    metered = run.session.catalog.metered
    if metered is None:
        raise SkipCheck("no revision with a required value was found")
    transaction = run.session.authorize(metered)
    response = run.session.complete(transaction, transaction.build_success(values={}))
    return judge_error(response, 422, "invalid_request")


def _check_negative_metadata(run: ProbeRun) -> Observation:
    return _judge_metadata(run, {"duration_ms": -1})


def _check_long_metadata(run: ProbeRun) -> Observation:
    return _judge_metadata(run, {"response_content_type": "text/" + "x" * 300})


def _judge_metadata(run: ProbeRun, metadata: Mapping[str, object]) -> Observation:
    transaction = run.session.get_pending()
    response = run.session.complete(transaction, transaction.build_failure(resource_execution=metadata))
    return judge_error(response, 422, "invalid_request")


def _check_succeeded(run: ProbeRun) -> Observation:
    sale = run.settled_sale
    if get_field(sale.response, "status") == "failed":
        raise SkipCheck("the payment for work that succeeded failed; does the payer have money?")
    proven = _classify(sale.response, sale.transaction.id) == "proven" and _has_equal_payment_responses(
        sale.response
    )
    return judge(proven, f"{_describe_status(sale.response)}, {'proven' if proven else 'not proven'}")


def _check_failed(run: ProbeRun) -> Observation:
    transaction, response = run.failed_sale
    passed = _classify(response, transaction.id) == "not paid" and _parse_result(response) is not None
    return judge(passed, _describe_status(response))


def _check_no_metadata(run: ProbeRun) -> Observation:
    return _judge_optional(run, "resource_execution")


def _check_empty_values(run: ProbeRun) -> Observation:
    if run.settled_sale.transaction.product.values:
        raise SkipCheck("the purchased revision requires a value")
    return _judge_optional(run, "values")


def _judge_optional(run: ProbeRun, name: str) -> Observation:
    """Pass if a success was accepted without this field."""
    sale = run.settled_sale
    if not sale.is_accepted:
        raise SkipCheck(f"complete accepted no success: {describe(sale.response)}")
    return judge(name not in sale.extra, "required" if name in sale.extra else "optional")


def _check_again_final(run: ProbeRun) -> Observation:
    transaction, first = run.settled_transaction, run.settled_sale.response
    response = run.session.complete(transaction, transaction.build_success(**run.settled_sale.extra))
    # The same result may be spelled differently, such as with its fields in another order.
    equal = (response.status, response.body) == (first.status, first.body) or _has_same_result(
        first, response
    )
    same = equal and _has_equal_payment_responses(response)
    return judge(same, f"{_describe_status(response)}, {'the same' if same else 'not the same'}")


def _check_other_outcome(run: ProbeRun) -> Observation:
    transaction = run.settled_transaction
    response = run.session.complete(transaction, transaction.build_failure())
    return judge_error(response, 409, "invalid_request")


def _check_settling(run: ProbeRun) -> Observation:
    response = run.pending_sale.completed
    result = _parse_result(response)
    passed = (
        response.status == 202
        and response.first("payment-response") is None
        and result is not None
        and result.status in PENDING
        and (result.payment_response, result.receipt, result.transaction_hash) == (None, None, None)
    )
    return judge(passed, _describe_status(response))


def _check_again_settling(run: ProbeRun) -> Observation:
    sale = run.pending_sale
    result = _parse_result(sale.completed_again)
    own = result is not None and result.transaction_id == sale.transaction.id
    return judge(sale.completed_again.status in (200, 202) and own, _describe_status(sale.completed_again))


def _classify(response: Response, transaction_id: str) -> str:
    """Apply the client's own rules for what proves a payment."""
    try:
        result = parse_completion(response, transaction_id)
    except BadAnswer:
        return "unreadable"
    if isinstance(result, CompletionPaid):
        return "proven"
    return "not paid" if isinstance(result, CompletionUnpaid) else "neither"


def _parse_result(response: Response) -> CompletionResult | None:
    """Return the result if all of its five fields are there, else None."""
    try:
        return parse(CompletionResult, response)
    except BadAnswer:
        return None


def _has_equal_payment_responses(response: Response) -> bool:
    """Return whether header and body carry the same payment response."""
    return response.first("payment-response") == get_field(response, "payment_response")


def _has_same_result(first: Response, second: Response) -> bool:
    result = _parse_result(first)
    return result is not None and result == _parse_result(second)


def _describe_status(response: Response) -> str:
    status = get_field(response, "status")
    return f"{describe(response)} {status:.40}" if isinstance(status, str) else describe(response)


CHECKS = (
    Check("complete-unknown", "decision", "404 transaction_not_found", _check_unknown_transaction),
    Check("complete-no-proof", "decision", "422 invalid_request", _check_no_proof),
    Check("complete-other-proof", "decision", "422 invalid_request", _check_other_proof),
    Check("complete-not-json", "decision", "400 invalid_request", _check_not_json),
    Check("complete-other-revision", "decision", "409 revision_mismatch", _check_other_revision),
    Check("complete-no-values", "decision", "422 invalid_request", _check_no_values),
    Check("complete-required-value", "decision", "422 invalid_request if left out", _check_required_value),
    Check("complete-negative-metadata", "decision", "422 invalid_request", _check_negative_metadata),
    Check("complete-long-metadata", "decision", "422 invalid_request", _check_long_metadata),
    Check("complete-succeeded", "contract", "200 succeeded, receipt, PAYMENT-RESPONSE", _check_succeeded),
    Check("complete-failed", "contract", "200 failed, three nulls", _check_failed),
    Check("complete-no-metadata", "decision", "resource_execution is optional", _check_no_metadata),
    Check(
        "complete-empty-values", "decision", "values may be empty if none is required", _check_empty_values
    ),
    Check("complete-again-final", "decision", "the stored result", _check_again_final),
    Check("complete-other-outcome", "decision", "409 invalid_request", _check_other_outcome),
    Check("complete-settling", "decision", "202 with a pending result, three nulls", _check_settling),
    Check("complete-again-settling", "decision", "202 or 200, the current state", _check_again_settling),
)
