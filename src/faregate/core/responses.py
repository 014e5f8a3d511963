"""Build every response that a payer gets: which headers pass, and our own bodies. Pure.

Rules
- A result leaves with the service's `PAYMENT-RESPONSE` and our `Faregate-Transaction`, and with no other
  payment header.
- Everything the paywall says is `Cache-Control: private, no-store`: a shared cache must never hand a
  paid result, or a stale 402, to another client.
- A response about a payment lets a browser's script read the payment headers, where the application's
  own CORS headers allow its origin (`Access-Control-Expose-Headers`).
- Bodies made here are `{code, message}` and, where there is one, `transaction_id`, which is also in
  `Faregate-Transaction`. They reflect nothing a payer sent and tell nothing of the seller's setup.
"""

import json
import re
from enum import Enum, auto
from functools import lru_cache

from faregate.core.models import Header, Headers, Response, header_values
from faregate.core.results import (
    DeliveredElsewhere,
    LeaseLost,
    NothingBegun,
    OpenAfterRejection,
    OtherSellersPayment,
    PaidWithoutResult,
    PaymentFailed,
    PaymentProven,
    Settlement,
    StillSettling,
    StuckPayment,
    Unconfirmed,
)

NO_STORE: Header = ("Cache-Control", "private, no-store")
TRANSACTION = "Faregate-Transaction"
"""The header with the transaction id, for a payer to quote. It is sent wherever a body would tell the id."""
EXPOSED: Header = (
    "Access-Control-Expose-Headers",
    f"PAYMENT-REQUIRED, PAYMENT-RESPONSE, {TRANSACTION}, Retry-After",
)
DEFAULT_RETRY_AFTER = "2"

_PAYMENT = frozenset(
    (
        TRANSACTION.lower(),
        "payment-required",
        "payment-response",
        "payment-signature",
        "x-payment-response",
    )
)
# A header that speaks of caching passes only if it is named here. There is no list of those that do not:
# content delivery networks keep adding their own, such as `Netlify-CDN-Cache-Control` and `X-VC-TTL`.
_STORES_NOTHING = frozenset(
    (
        "access-control-max-age",
        "clear-site-data",
        "expect-ct",
        "pragma",
        "public-key-pins",
        "public-key-pins-report-only",
        "set-cookie",
        "strict-transport-security",
    )
)
_CACHING_NAME = re.compile(
    "cach|surrogate|max-?age|cdn|akamai|fastly|varnish|litespeed|cloudflare|netlify|vercel"
    "|(?:^|[-_.])(?:edge|expir(?:es|y|ation)|stale|ttls?)(?:$|[-_.])|^(?:x-)?age$",
    re.IGNORECASE,
)
_CACHING_VALUE = re.compile(r"(?:^|,)\s*(?:s-?maxage|max-?age|stale-[a-z-]+|ttl)\s*=", re.IGNORECASE)
# Cookies, and the headers by which a proxy sends a file in place of a response, whatever its status.
_OF_RESULTS = re.compile("set-cookie$|x-accel-|x-sendfile|x-lighttpd-send|x-reproxy-", re.IGNORECASE)
_PREFLIGHT, _CORS = ("allow", "vary"), "access-control-"
_PRIVATE = frozenset(("private", "no-store"))
# Waitress and wsgiref raise for these: a result that was paid for would never be sent.
_HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "trailers", "transfer-encoding", "upgrade"),
    )
)


def build_settlement(settlement: Settlement, transaction_id: str) -> Response:
    """Build the payer's response. Raises `ValueError` for a payment that failed: it gets new instructions."""
    match settlement:
        case PaymentProven(result, payment_response):
            return build_paid(result, payment_response, transaction_id)
        case DeliveredElsewhere():
            return build_in_progress()  # the payer may come back for a replay
        case PaidWithoutResult():
            return build_already_used(transaction_id)
        case StillSettling(reply) if reply is not None:
            return relay_settling(reply, transaction_id)
        case StillSettling() | NothingBegun():
            return build_settling(transaction_id)
        case OpenAfterRejection(rejection):
            return build_completion_refused(rejection.status, transaction_id, rejection.retry_after)
        case StuckPayment(payment):
            return build_settlement(payment, transaction_id)
        case Unconfirmed() | LeaseLost() | OtherSellersPayment():
            return build_unconfirmed(transaction_id)
        case PaymentFailed():
            raise ValueError("a failed payment is answered with fresh instructions")


def build_paid(result: Response, payment_response: str, transaction_id: str) -> Response:
    """The result of paid work, with its proof of payment."""
    proof = (("PAYMENT-RESPONSE", payment_response), (TRANSACTION, transaction_id), EXPOSED)
    return Response(result.status, (*_filter_headers(result.headers), *proof), result.body, released=True)


def build_unsold(response: Response) -> Response:
    """The handler's own answer when nothing was charged for it: it sets no cookies, and names no file."""
    headers = tuple(pair for pair in _filter_headers(response.headers) if not _OF_RESULTS.match(pair[0]))
    return Response(response.status, headers, response.body)


def build_redirect(status: int, location: str) -> Response:
    """A redirect that the paywall makes itself."""
    return Response(status, (("Location", location), NO_STORE))


def build_preflight(headers: Headers) -> Response:
    """The answer to an OPTIONS of something in front of a paid handler: what CORS needs, and no content."""
    kept = [pair for pair in headers if pair[0].lower() in _PREFLIGHT or pair[0].lower().startswith(_CORS)]
    return Response(204, (*kept, NO_STORE))


def build_free(response: Response) -> Response:
    """A result that costs nothing: its caching is the handler's own business."""
    kept = tuple(pair for pair in response.headers if _find_kind(pair[0]) is not _DROPPED)
    return Response(response.status, kept, response.body, released=True)


def build_payment_required(reply: Response) -> Response:
    """The service's 402: its body bytes, its instructions, its `Retry-After`."""
    headers = _relay_headers(reply, "content-type", "payment-required", "retry-after")
    return Response(402, headers, reply.body, code="payment_required")


def build_new_payment_required(reply: Response, transaction_id: str | None) -> Response:
    """Build a 402 with new instructions; the body says that the previous payment was not charged."""
    message = "The payment that was sent was not taken, and nothing was charged. Sign a new one."
    response = _build(402, "payment_required", message, transaction_id)
    return response.plus(*_find_headers(reply, "payment-required", "retry-after"))


def relay_settling(reply: Response, transaction_id: str | None) -> Response:
    """The service's 202 to access, or to a completion."""
    # `interpret` removes the body of a reply that is not JSON, or that has what only a proven payment may
    # have.
    if reply.status != 202 or not reply.body:
        return build_settling(transaction_id)
    headers = _relay_headers(reply, "content-type", "retry-after")
    if not header_values(headers, "retry-after"):
        headers = (*headers, ("Retry-After", DEFAULT_RETRY_AFTER))
    if transaction_id is not None:
        headers = (*headers, (TRANSACTION, transaction_id))
    return Response(202, headers, reply.body, code="payment_settling")


def build_settling(transaction_id: str | None) -> Response:
    message = "The payment is still settling. Come back with the same payment; do not pay again."
    return _build(202, "payment_settling", message, transaction_id, DEFAULT_RETRY_AFTER)


def build_unconfirmed(transaction_id: str | None) -> Response:
    message = "The payment could not be confirmed yet. Come back with the same payment; do not pay again."
    return _build(503, "payment_unconfirmed", message, transaction_id, DEFAULT_RETRY_AFTER)


def build_completion_refused(status: int, transaction_id: str, retry_after: str | None) -> Response:
    message = "The payment could not be completed yet. Come back with the same payment; do not pay again."
    return _build(status, "completion_refused", message, transaction_id, retry_after or DEFAULT_RETRY_AFTER)


def build_in_progress() -> Response:
    message = "A request with this payment is still being served."
    return _build(409, "payment_in_progress", message, retry_after="1")


def build_already_used(transaction_id: str | None = None) -> Response:
    message = "This payment was already used."
    return _build(409, "proof_already_used", message, transaction_id)


def build_identifier_reused() -> Response:
    message = (
        "The id of the extension payment-identifier names a purchase of yours with another URL, method or "
        "body. Nothing was charged for this payment. Sign one with an id of its own."
    )
    return _build(409, "payment_identifier_reused", message)


def build_other_client() -> Response:
    """Build a 409 for a request with other credentials. It discloses nothing about the result."""
    message = (
        "This payment belongs to a request with other credentials. Send the Authorization, Cookie and "
        "Idempotency-Key headers of that request."
    )
    return _build(409, "proof_already_used", message)


def build_not_recognized(transaction_id: str) -> Response:
    """Build the 409 for a request that may come from a stranger who copied the payment from the chain."""
    message = (
        "The result of this payment is not delivered to a request that could come from another client. "
        "A request with an Authorization or Idempotency-Key header can fetch its result again."
    )
    return _build(409, "proof_already_used", message, transaction_id)


def build_unavailable(status: int, retry_after: str | None = None) -> Response:
    """502 when the service's answer is wrong, 503 when it may be better soon."""
    message = "Payment cannot be checked at the moment."
    wait = (retry_after or DEFAULT_RETRY_AFTER) if status == 503 else None
    return _build(status, "payment_service_unavailable", message, retry_after=wait)


def build_work_failed(code: str) -> Response:
    """The work gave nothing to sell, and the payer was not charged."""
    return _build(500, code, "The resource could not be produced. The payment was not taken.")


def build_refused(status: int, code: str, message: str) -> Response:
    """A request that cannot be served as it is."""
    return _build(status, code, message)


def _build(
    status: int, code: str, message: str, transaction_id: str | None = None, retry_after: str | None = None
) -> Response:
    body = {"code": code, "message": message}
    headers: Headers = (("Content-Type", "application/json"), NO_STORE, EXPOSED)
    if transaction_id is not None:
        body["transaction_id"] = transaction_id
        headers = (*headers, (TRANSACTION, transaction_id))
    if retry_after is not None:
        headers = (*headers, ("Retry-After", retry_after))
    return Response(status, headers, json.dumps(body).encode(), code=code)


def _relay_headers(reply: Response, *names: str) -> Headers:
    return (*_find_headers(reply, *names), NO_STORE, EXPOSED)


def _find_headers(reply: Response, *names: str) -> Headers:
    """Find these headers (lower case); one that is absent or ambiguous is left out."""
    values: dict[str, list[str]] = {name: [] for name in names}
    for name, value in reply.headers:
        if (kind := name.lower()) in values:
            values[kind].append(value)
    return tuple([(name, found[0]) for name, found in values.items() if len(found) == 1])


def _filter_headers(headers: Headers) -> Headers:
    """Leave out payment headers, hop-by-hop headers, and those that allow more caching than ours."""
    kept = [pair for pair in headers if _find_kind(pair[0]) is not _DROPPED]
    if forbids_storing(headers):
        return tuple(kept)
    return (*[pair for pair in kept if not allows_storing(*pair)], NO_STORE)


def allows_storing(name: str, value: str) -> bool:
    """Whether a cache, known to us or not, could read this header as permission to store."""
    kind = _find_kind(name)
    if kind is _OTHER or kind is _DROPPED:
        # Look for an equals sign first: most values have none.
        return "=" in value and _CACHING_VALUE.search(value) is not None
    return kind is not _HARMLESS


class _Kind(Enum):
    """How a header of a paid result is treated, by its name."""

    DROPPED = auto()
    HARMLESS = auto()
    CACHE_CONTROL = auto()
    EXPIRES = auto()
    CACHING = auto()
    OTHER = auto()


# Python 3.11 takes 0.15 us to find a member in its class.
_DROPPED, _HARMLESS, _CACHE_CONTROL, _EXPIRES, _CACHING, _OTHER = _Kind


@lru_cache(maxsize=1024)
def _find_kind(name: str) -> _Kind:
    # Kept by name: an application sends the same few headers with every response.
    lower = name.lower()
    if lower in _PAYMENT or lower in _HOP_BY_HOP:
        return _DROPPED
    if lower in _STORES_NOTHING:
        return _HARMLESS
    if lower in _OWN_CACHING:
        return _OWN_CACHING[lower]
    return _OTHER if _CACHING_NAME.search(name) is None else _CACHING


_OWN_CACHING = {"cache-control": _CACHE_CONTROL, "expires": _EXPIRES}


def forbids_storing(headers: Headers) -> bool:
    """Whether no cache may keep a response with these headers, the payer's own cache included."""
    directives: set[str] = set()
    for name, value in headers:
        kind = _find_kind(name)
        if kind is _CACHE_CONTROL:
            directives.update([directive.strip().lower() for directive in value.split(",")])
        elif kind is _CACHING or ("=" in value and kind is not _EXPIRES and allows_storing(name, value)):
            return False
    return directives >= _PRIVATE and "public" not in directives
