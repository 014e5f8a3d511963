"""POST /merchant/v1/access: the price, the transaction, errors, and access again with the same proof.

The specification does not say what a second access with the same proof returns. Our decision: the same
transaction while it is open, else 402.
"""

import base64
import json
from typing import Any

from faregate.core.models import Response
from faregate.merchant.requests import INSTRUCTIONS
from faregate.pay.requirements import NotSigned, parse_payment_required
from faregate.probe.check import Check, Observation, SkipCheck, describe, judge, judge_error
from faregate.probe.discovery import build_access_body
from faregate.probe.fixtures import ProbeRun
from faregate.probe.session import make_unknown_id, parse_transaction_id
from faregate.x402.instructions import are_unpredictable


def _check_unpaid(run: ProbeRun) -> Observation:
    response = run.session.access(run.session.product, None)
    try:
        parse_payment_required(response.first("payment-required") or "")
    except NotSigned:
        return Observation("fail", f"{describe(response)}, without readable instructions")
    return judge_error(response, 402, "payment_required")


def _check_unpredictable(run: ProbeRun) -> Observation:
    """Compare two 402s to the same request: only what differs between them is unknown to a stranger."""
    responses = [run.session.access(run.session.product, None) for _ in range(2)]
    headers = [response.first(INSTRUCTIONS) for response in responses if response.status == 402]
    if len(headers) < 2 or None in headers:
        raise SkipCheck(f"no two instructions to compare: access returned {describe(responses[-1])}")
    fresh = are_unpredictable(headers[0] or "", headers[1] or "")
    return judge(fresh, "a fresh value each time" if fresh else "can be guessed from public data")


def _check_paid(run: ProbeRun) -> Observation:
    transaction, response = run.session.try_authorize(run.session.product)
    if response.status == 402:
        raise SkipCheck(f"the payment was not accepted; does the payer have money? {_read_reason(response)}")
    return judge(transaction is not None, f"{describe(response)}, {'a' if transaction else 'no'} transaction")


def _read_reason(response: Response) -> str:
    """Return the reason in the instructions of a 402, safe to print."""
    try:
        error = parse_payment_required(response.first("payment-required") or "").error or "no reason given"
    except NotSigned as unreadable:
        error = str(unreadable)
    return "".join(char for char in error[:200] if char.isprintable())


def _check_not_json(run: ProbeRun) -> Observation:
    return judge_error(run.session.client.post("/access", b"{"), 400, "invalid_request")


def _check_missing_field(run: ProbeRun) -> Observation:
    body = build_access_body(run.session.product.revision)
    del body["settlement_asset"]
    return judge_error(run.session.client.post("/access", body), 422, "invalid_request")


def _check_unknown_property(run: ProbeRun) -> Observation:
    return _judge_changed_body(run, surprise="1")


def _check_unknown_revision(run: ProbeRun) -> Observation:
    return _judge_changed_body(run, revision_id=make_unknown_id("acr"))


def _check_foreign_revision(run: ProbeRun) -> Observation:
    foreign = run.session.foreign_revision
    if foreign is None:
        raise SkipCheck("no revision of the other environment is known: use --foreign-revision")
    return _judge_changed_body(run, revision_id=foreign)


def _judge_changed_body(run: ProbeRun, **changes: Any) -> Observation:
    body = {**build_access_body(run.session.product.revision), **changes}
    return judge_error(run.session.client.post("/access", body), 422, "invalid_request")


def _check_status_before_completion(run: ProbeRun) -> Observation:
    status = run.read_transaction(run.session.get_pending()).status
    return judge(status == "authorized", status or "no status")


def _check_again_while_open(run: ProbeRun) -> Observation:
    transaction = run.session.get_pending()
    response = run.session.access(transaction.product, transaction.proof)
    return _judge_same_transaction(response, 200, transaction.id)


def _check_again_while_settling(run: ProbeRun) -> Observation:
    sale = run.pending_sale
    # Only a 402 is worth a read: anything else already says how the service decides.
    if sale.accessed.status == 402 and not run.is_pending(sale.transaction):
        raise SkipCheck("the payment was final before access was requested again")
    return _judge_same_transaction(sale.accessed, 202, sale.transaction.id)


def _judge_same_transaction(response: Response, status: int, transaction_id: str) -> Observation:
    same = parse_transaction_id(response) == transaction_id
    which = "the same transaction" if same else "not the same transaction"
    return judge(response.status == status and same, f"{describe(response)}, {which}")


def _check_again_once_final(run: ProbeRun) -> Observation:
    transaction = run.settled_transaction
    return judge_error(run.session.access(transaction.product, transaction.proof), 402, "payment_required")


def _check_another_resource(run: ProbeRun) -> Observation:
    transaction = run.session.get_pending()
    response = run.session.access(transaction.product, transaction.proof, path="another")
    return judge_error(response, 402, "payment_required")


def _check_other_bytes(run: ProbeRun) -> Observation:
    """Send the same authorization as a stranger would encode it after reading it on the chain."""
    transaction = run.session.get_pending()
    payload = json.loads(base64.b64decode(transaction.proof))
    rebuilt = base64.b64encode(json.dumps(payload, indent=1).encode()).decode("ascii")
    return judge_error(run.session.access(transaction.product, rebuilt), 402, "payment_required")


CHECKS = (
    Check("access-unpaid", "contract", "402 payment_required, with instructions", _check_unpaid),
    Check(
        "instructions-unpredictable",
        "decision",
        "a fresh random value in every accepts entry",
        _check_unpredictable,
    ),
    Check("access-paid", "contract", "200 with a transaction id", _check_paid),
    Check("access-not-json", "decision", "400 invalid_request", _check_not_json),
    Check("access-missing-field", "decision", "422 invalid_request", _check_missing_field),
    Check("access-unknown-property", "decision", "422 invalid_request", _check_unknown_property),
    Check("access-unknown-revision", "decision", "422 invalid_request", _check_unknown_revision),
    Check("access-foreign-revision", "decision", "422 invalid_request", _check_foreign_revision),
    Check("status-before-completion", "decision", "status authorized", _check_status_before_completion),
    Check("access-again-open", "decision", "200, the same transaction", _check_again_while_open),
    Check("access-again-settling", "decision", "202, the same transaction", _check_again_while_settling),
    Check("access-again-final", "decision", "402 payment_required", _check_again_once_final),
    Check("access-used-elsewhere", "decision", "402 payment_required", _check_another_resource),
    Check("access-other-bytes", "decision", "402 payment_required", _check_other_bytes),
)
