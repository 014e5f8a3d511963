"""Describe a sale for those who listen to events: what is known of it, and how long each part took. Pure."""

import json
import re
from dataclasses import replace
from typing import Any

from faregate.core.claim_types import PendingPayment
from faregate.core.interfaces import Backend
from faregate.core.models import OfferRevision, PaidRequest
from faregate.events import Sale

_AMOUNT = re.compile(r"0|[1-9][0-9]{0,29}", re.ASCII)


def describe(payment: PendingPayment, **details: Any) -> PendingPayment:
    """Return the payment, whose sale is known better by now."""
    return replace(payment, sale=replace(payment.sale, **details))


def describe_resumed(payment: PendingPayment, request: PaidRequest) -> PendingPayment:
    """Return the payment that the request came back for."""
    if not request.is_observed:
        return payment
    return replace(payment, sale=replace(request.sale, revision_id=payment.revision_id))


def describe_recovered(payment: PendingPayment) -> PendingPayment:
    """Return a payment out of the journal, which keeps no more than the revision of its sale."""
    is_known = payment.sale.revision_id is not None
    return payment if is_known else describe(payment, revision_id=payment.revision_id)


def describe_access(backend: Backend, request: PaidRequest, revision: OfferRevision, began: float) -> Sale:
    """Return the sale after a call to access that began at this time."""
    access_ms = measure(backend, began)
    return replace(request.sale, revision_id=revision.revision_id, asset=revision.asset, access_ms=access_ms)


def describe_receipt(payment: PendingPayment, receipt: str) -> PendingPayment:
    """Return the payment with the amounts and the asset of its receipt, as far as they can be read."""
    try:
        # Whatever is wrong with it: the payment is proven, and its result leaves.
        content: Any = json.loads(receipt)
        paid: Any = content["payment"]
        asset = paid.get("asset")
        # With a fixed price, both amounts are the price.
        is_usage = content.get("price", {}).get("calculation_mode") == "usage"
        amounts = {"amount": paid.get("settled_atomic")}
        if is_usage:
            amounts["authorized"] = paid.get("authorized_atomic")
    except Exception:
        return payment
    details: dict[str, Any] = {
        name: int(amount)
        for name, amount in amounts.items()
        if isinstance(amount, str) and _AMOUNT.fullmatch(amount)
    }
    if isinstance(asset, str):
        details["asset"] = asset
    return describe(payment, **details)


def measure(backend: Backend, began: float) -> int:
    """Milliseconds since `began`, a time of `Backend.get_time`."""
    return int((backend.get_time() - began) * 1000)
