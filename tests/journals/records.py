"""Records as a store keeps them, in each state."""

from typing import Any

from tests.journals.stores import LEASED

CLAIMED: dict[str, Any] = {
    "stamp": 1,
    "fence": 1,
    "generation": 1,
    "state": "claimed",
    "request": "r",
    "transaction_id": None,
    "revision_id": "acr",
    "since": 1.0,
    **LEASED,
    "lease_until": 2.0,
    "due_at": 0.0,
    "expires_at": 3.0,
    "forget_at": None,
    "delivered": False,
    "redelivered": 0,
    "holds_so_far": 0,
    "size": 0,
    "reason": "",
    "proof": b"proof",
    "request_line": b"line",
    "payer": None,
    "payment_response": None,
    "receipt": None,
    "result": None,
}


BEGUN: dict[str, Any] = {"transaction_id": "txn", "expires_at": None}
