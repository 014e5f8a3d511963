"""The errors of the Merchant API (spec: Errors): status, code and headers of each. Pure.

The service answers with these, and the OpenAPI document lists them. Errors that share a `component` are one
response of the document, with several codes.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Problem:
    """One error. `component` names its response in the OpenAPI document; `headers` may come with it."""

    status: int
    code: str
    component: str
    headers: tuple[str, ...] = ()


MALFORMED: Final = Problem(400, "invalid_request", "Malformed")
UNAUTHENTICATED: Final = Problem(401, "unauthenticated", "Unauthenticated", ("WWW-Authenticate",))
PAYMENT_REQUIRED: Final = Problem(
    402, "payment_required", "PaymentRequired", ("PAYMENT-REQUIRED", "Retry-After")
)
FORBIDDEN: Final = Problem(403, "forbidden", "Forbidden")
TRANSACTION_NOT_FOUND: Final = Problem(404, "transaction_not_found", "TransactionNotFound")
EXECUTION_NOT_FOUND: Final = Problem(404, "resource_execution_not_found", "ExecutionNotFound")
TRANSACTION_MISMATCH: Final = Problem(409, "revision_mismatch", "TransactionConflict")
OUTCOME_CONFLICT: Final = Problem(409, "invalid_request", "TransactionConflict")
EXECUTION_MISMATCH: Final = Problem(409, "revision_mismatch", "ExecutionConflict")
EXECUTION_CONFLICT: Final = Problem(409, "resource_execution_conflict", "ExecutionConflict")
INVALID: Final = Problem(422, "invalid_request", "Invalid")
RATE_LIMITED: Final = Problem(429, "rate_limited", "RateLimited", ("Retry-After",))
INTERNAL_ERROR: Final = Problem(500, "internal_error", "InternalError")
UNAVAILABLE: Final = Problem(503, "internal_error", "Unavailable", ("Retry-After",))

PROBLEMS: Final = (
    MALFORMED,
    UNAUTHENTICATED,
    PAYMENT_REQUIRED,
    FORBIDDEN,
    TRANSACTION_NOT_FOUND,
    EXECUTION_NOT_FOUND,
    TRANSACTION_MISMATCH,
    OUTCOME_CONFLICT,
    EXECUTION_MISMATCH,
    EXECUTION_CONFLICT,
    INVALID,
    RATE_LIMITED,
    INTERNAL_ERROR,
    UNAVAILABLE,
)
DESCRIPTIONS: Final = {
    "Malformed": "The body is not JSON.",
    "Unauthenticated": "The API key is missing or not valid.",
    "PaymentRequired": "Payment is required and no acceptable proof was sent.",
    "Forbidden": "The key does not allow the operation.",
    "TransactionNotFound": "The transaction is not known.",
    "ExecutionNotFound": "The execution is not known.",
    "TransactionConflict": "The revision differs from the one that was authorized, "
    "or another outcome or other values were accepted before.",
    "ExecutionConflict": "The revision differs from the one that was authorized, "
    "or other metadata was accepted before.",
    "Invalid": "A parameter, a header or the body breaks a rule.",
    "RateLimited": "Too many requests: send it again after the time in Retry-After.",
    "InternalError": "The service failed.",
    "Unavailable": "Nobody could be asked whether the payment is good, or the service is overloaded, or its "
    "database is away. Send the same request again: nothing is done twice.",
}

# The errors of endpoints that do not exist, which the OpenAPI document cannot name.
NO_SUCH_ENDPOINT: Final = Problem(404, "invalid_request", "")
METHOD_NOT_ALLOWED: Final = Problem(405, "invalid_request", "", ("Allow",))
