"""Parts of a flow's script."""

import json
from dataclasses import replace
from typing import Any

from faregate.core.claims import PendingPayment, Resumable
from faregate.core.models import Response
from faregate.core.results import AccessUnpaid
from faregate.core.steps import CallAccess, CallComplete, GetTransaction, Sleep, WriteFallback
from tests.core.flow_script import (
    ACR,
    ENTRY,
    GOOD,
    LEASE_HELD,
    PROOF,
    RESULT,
    RULES,
    TXN,
    claimed,
    found,
    sale,
)

NEEDED = Response(
    402,
    (
        ("content-type", "application/json"),
        ("payment-required", "aW5zdHI="),
        ("retry-after", "7"),
        ("x-secret", "no"),
    ),
    b'{"code":"payment_required","message":"pay"}',
)


PENDING = Response(
    202,
    (("content-type", "application/json"),),
    json.dumps({"transaction_id": TXN, "status": "settling"}).encode(),
)


FRESH_402 = (found(), (CallAccess(sale(), RULES, None), AccessUnpaid(NEEDED)))


PAUSES = (Sleep(0.2), None), (Sleep(0.8), None)


SALVAGED = (WriteFallback(TXN, ACR), None)


def names(response: Response) -> set[str]:
    return {name.lower() for name, _ in response.headers}


def body(response: Response) -> Any:
    return json.loads(response.body)


def assert_nothing_left(response: Response) -> None:
    """Not a byte of the result, and no proof of payment."""
    assert RESULT.body not in response.body
    assert "payment-response" not in names(response)


def assert_unconfirmed(response: Response) -> None:
    """Row 10: never a fresh 402 while the outcome is unknown."""
    assert response.status == 503
    assert body(response)["code"] == "payment_unconfirmed"
    assert body(response)["transaction_id"] == TXN
    assert response.first("retry-after")
    assert "payment-required" not in names(response)
    assert_nothing_left(response)


HELD = replace(ENTRY, outcome=GOOD)


BACK = (claimed(Resumable(HELD)),)


COMPLETE_HELD = CallComplete(HELD, GOOD)


STANDING = GetTransaction(TXN)


WAITING = PendingPayment(LEASE_HELD, PROOF, TXN, ACR, None, waiting=True)


def assert_402(response: Response) -> None:
    assert response.status == 402
    assert response.body == NEEDED.body
    assert response.first("payment-required") == "aW5zdHI="
    assert_nothing_left(response)


def assert_402_anew(response: Response, transaction_id: str | None = TXN) -> None:
    """Row 11: the service's instructions as they are; the body tells that the payment was not taken."""
    assert response.status == 402
    assert response.first("payment-required") == "aW5zdHI="
    assert response.first("retry-after") == "7"
    assert body(response)["code"] == "payment_required"
    assert "nothing was charged" in body(response)["message"]
    assert body(response).get("transaction_id") == transaction_id
    assert_nothing_left(response)
