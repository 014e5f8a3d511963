"""One line for each call to the emulator: what was asked, what was answered, and what that means. Pure.

Neither keys, proofs nor queries are in it.
"""

from typing import Any, Final

from faregate.core.models import Response, WireRequest, header_values
from faregate.emulator.calls import decode_header
from faregate.emulator.delivery import Delivery
from faregate.errors import BadAnswer
from faregate.merchant.calls import parse_object

_PROOF: Final = "payment-signature"
_MAX: Final = 200


def format_call(request: WireRequest, delivery: Delivery) -> str:
    """`POST /merchant/v1/access  402  payment required`"""
    path = request.path.partition("?")[0]
    found = _parse(delivery.response)
    transaction = found.get("transaction_id")
    about = f"  {transaction}" if isinstance(transaction, str) and transaction not in path else ""
    status = str(delivery.response.status) if delivery.response.status else "---"
    line = f"{request.method:<4} {path}  {status}  {_explain(request, delivery, found)}{about}"
    return "".join(char if char.isprintable() else "?" for char in line)[:_MAX]


def _parse(response: Response) -> dict[str, Any]:
    try:
        return parse_object(response)
    except BadAnswer:
        return {}


def _explain(request: WireRequest, delivery: Delivery, found: dict[str, Any]) -> str:
    if delivery.ending != "whole":
        return f"the answer is not delivered ({delivery.ending})"
    status = delivery.response.status
    if status == 402:
        return _explain_refusal(request, delivery.response)
    if status >= 400:
        return str(found.get("code", "error"))
    if "count" in found:
        return f"{len(found.get('items', ()))} of {found['count']}"
    if "status" in found:
        return str(found["status"])
    if status == 202:
        return "still settling"
    if request.path.endswith("/access"):
        return "free" if found.get("transaction_id") is None else "granted"
    return "done"


def _explain_refusal(request: WireRequest, response: Response) -> str:
    if not header_values(request.headers, _PROOF):
        return "payment required"
    reason = (decode_header(response.headers, "payment-required") or {}).get("error")
    return f"payment refused: {reason}" if reason else "payment refused"
