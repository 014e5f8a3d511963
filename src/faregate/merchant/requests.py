"""Calls to the service: what is sent. `interpret` reads the replies. Pure.

`wire` makes the calls of the contract, with models; what the paywall itself sends needs none.
"""

import re
from collections.abc import Callable
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from faregate.core.models import Headers, Response, WireRequest
from faregate.frozen import frozen

T = TypeVar("T")

ROOT: Final = "/merchant/v1"
PROOF: Final = "PAYMENT-SIGNATURE"
INSTRUCTIONS: Final = "payment-required"
PAYMENT_RESPONSE: Final = "payment-response"
_PLAIN: Final = re.compile(r"\w+", re.ASCII)
PRICES: Final = "/prices"
"""No operation of the Merchant API: a service inside this process publishes the prices of the code there."""
JSON_HEADER: Final = ("Content-Type", "application/json")
JSON: Final[Headers] = (JSON_HEADER,)


@frozen
class Call(Generic[T]):
    """One operation: what to send, and what its reply means."""

    request: WireRequest
    read: Callable[[Response], T]


def build_post(path: str, body: bytes) -> WireRequest:
    return WireRequest("POST", ROOT + path, JSON, body)


def build_completion(transaction_id: str, body: bytes, proof: str) -> WireRequest:
    """The request of `POST /transactions/{id}/complete`."""
    path = f"{ROOT}/transactions/{quote_id(transaction_id)}/complete"
    return WireRequest("POST", path, (*JSON, (PROOF, proof)), body)


def build_lookup(transaction_id: str) -> WireRequest:
    """The request of `GET /transactions/{id}`."""
    return WireRequest("GET", f"{ROOT}/transactions/{quote_id(transaction_id)}")


def concerns_transaction(url: str) -> bool:
    """Whether the call of this URL completes a transaction, or asks how one stands."""
    return f"{ROOT}/transactions/" in url


def build_closing(execution_id: str, body: bytes) -> WireRequest:
    """The request of `POST /resource-executions/{id}/complete`."""
    return build_post(f"/resource-executions/{quote_id(execution_id)}/complete", body)


def quote_id(identifier: str) -> str:
    # An id is one path segment whatever it holds; a wrong one is for the service to refuse.
    return identifier if _PLAIN.fullmatch(identifier) else quote(identifier, safe="")


def with_proof(request: WireRequest, proof: str | None) -> WireRequest:
    """The same call with the payer's proof, forwarded unchanged."""
    if proof is None:
        return request
    return WireRequest(request.method, request.path, (*request.headers, (PROOF, proof)), request.body)
