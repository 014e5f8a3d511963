"""A price that follows the use (scheme `upto`). These checks are made where something is sold by one.

One payment is made: for the smallest use, which costs less than the maximum of any real price.
"""

from faregate.core.models import Response
from faregate.errors import BadAnswer
from faregate.merchant.models import CompletionResult, ReceiptDocument
from faregate.merchant.wire import parse
from faregate.probe.check import Check, Observation, SkipCheck, describe, judge, judge_error
from faregate.probe.fixtures import ProbeRun
from faregate.x402.headers import find_settled_amount

_MORE = "2"
"""Another use than that of `Product.values`."""


def _check_settled(run: ProbeRun) -> Observation:
    transaction, response = run.used_sale
    paid = _read_receipt(response).payment
    maximum = transaction.product.atomic
    agrees = find_settled_amount(response.first("payment-response") or "") == paid.settled_atomic
    passed = paid.authorized_atomic == maximum and 0 < paid.settled_atomic <= maximum and agrees
    return judge(passed, f"{paid.settled_atomic} of {paid.authorized_atomic} settled, {maximum} offered")


def _check_receipt(run: ProbeRun) -> Observation:
    receipt = _read_receipt(run.used_sale[1])
    shown = f"{receipt.payment.scheme}, {receipt.price.calculation_mode}"
    return judge(shown == "upto, usage", shown)


def _check_listed(run: ProbeRun) -> Observation:
    transaction, response = run.used_sale
    paid, listed = _read_receipt(response).payment, run.read_transaction(transaction)
    shown = (listed.authorized_atomic, listed.settled_atomic)
    return judge(shown == (paid.authorized_atomic, paid.settled_atomic), f"{shown[1]} of {shown[0]}")


def _check_other_values(run: ProbeRun) -> Observation:
    transaction, _ = run.used_sale
    values = dict.fromkeys(transaction.product.values, _MORE)
    if not values:
        raise SkipCheck("the revision requires no value")
    response = run.session.complete(transaction, transaction.build_success(values=values))
    return judge_error(response, 409, "invalid_request")


def _check_failed(run: ProbeRun) -> Observation:
    transaction = run.session.authorize(run.used_sale[0].product)
    response = run.session.complete(transaction, transaction.build_failure())
    listed = run.read_transaction(transaction)
    passed = listed.status == "failed" and listed.settled_atomic is None
    return judge(
        passed, f"{describe(response)}, {listed.status}, {listed.settled_atomic or 'nothing'} settled"
    )


def _read_receipt(response: Response) -> ReceiptDocument:
    try:
        receipt = parse(CompletionResult, response).receipt
    except BadAnswer:
        receipt = None
    if receipt is None:
        raise SkipCheck(f"no use was settled: complete returned {describe(response)}")
    return receipt


CHECKS = (
    Check("usage-settled", "contract", "what was used, at most the maximum", _check_settled),
    Check("usage-receipt", "decision", "scheme upto, calculation_mode usage", _check_receipt),
    Check("usage-transaction", "contract", "the amounts of the receipt", _check_listed),
    Check("usage-other-values", "decision", "409 invalid_request", _check_other_values),
    Check("usage-failed", "contract", "failed, nothing settled", _check_failed),
)
