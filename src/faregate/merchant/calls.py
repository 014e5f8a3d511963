"""A call to the service, and what is read of a reply without a model of it. Pure.

`wire` makes the calls of the contract, with models; what the paywall itself sends and reads needs none.
"""

import re
from collections.abc import Callable
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from faregate.core.models import Headers, Response, WireRequest
from faregate.errors import BadAnswer, PaymentRequired, api_error
from faregate.frozen import frozen
from faregate.merchant.json_text import parse_object

T = TypeVar("T")

ROOT: Final = "/merchant/v1"
PROOF: Final = "PAYMENT-SIGNATURE"
INSTRUCTIONS: Final = "payment-required"
PAYMENT_RESPONSE: Final = "payment-response"
_PLAIN: Final = re.compile(r"\w+", re.ASCII)
PRICES: Final = "/prices"
"""No operation of the Merchant API: a service inside this process publishes the prices of the code there."""
JSON: Final[Headers] = (("Content-Type", "application/json"),)


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


def finishes_payment(url: str) -> bool:
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


def parse_error_body(reply: Response) -> tuple[str, str]:
    """The code and the message of an error that the service itself wrote, or `BadAnswer`."""
    fields = parse_object(reply)
    code, message = fields.get("code"), fields.get("message")
    if not isinstance(code, str) or not isinstance(message, str):
        raise BadAnswer(f"HTTP {reply.status}: not an error body: code and message are strings")
    return code, message


def parse_error(reply: Response) -> Exception:
    """The contract's error in this reply; `BadAnswer` if the body is not an error body."""
    try:
        code, message = parse_error_body(reply)
    except BadAnswer as error:
        if reply.status < 400:
            return error
        code, message = "unknown", "the service gave no readable error body"
    fault = api_error(reply.status, code, message, reply.first("retry-after"))
    if isinstance(fault, PaymentRequired):
        fault.instructions = reply.first(INSTRUCTIONS)
    return fault
