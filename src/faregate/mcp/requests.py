"""Read a tool call as the paywall reads a request. Pure.

What is bought is named as x402 names it: the method `tools/call` and the URL `mcp://tool/<name>`. It does
not depend on the transport, so a payment that was sent over one connection fetches its result over another.
"""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

from faregate.checkout.asgi_scope import decode_headers, parse_scope
from faregate.checkout.incoming_request import IncomingRequest
from faregate.core.models import Headers, Request
from faregate.core.request_headers import CREDENTIAL_HEADERS

PAYMENT = "x402/payment"
"""The key of a payment in the `_meta` of a call."""
METHOD = "tools/call"
LIST_METHOD = "tools/list"
ROOT = "/mcp/tools/"
"""Where the tools are for the merchant service, which knows resources by HTTP URLs only."""

_LOCAL = "http://localhost"
"""The origin of a server that listens on no address, as over stdio, and was given no public URL."""


def find_payment(params: Mapping[str, Any]) -> Any:
    """The payment of a call as it was sent; None if there is none."""
    meta = params.get("_meta")
    return cast(Mapping[str, Any], meta).get(PAYMENT) if isinstance(meta, Mapping) else None


def read_call(params: Mapping[str, Any], scope: Mapping[str, Any] | None) -> IncomingRequest:
    """Read a call; `scope` is that of the HTTP request it came in, if it did."""
    name, payment = str(params.get("name")), find_payment(params)
    proof: Headers = () if payment is None else (("PAYMENT-SIGNATURE", encode_payment(payment)),)
    around = None if scope is None else parse_scope(scope, scope["headers"])
    return IncomingRequest(
        Request(METHOD, f"mcp://tool/{quote(name, safe='')}", (*_find_credentials(scope), *proof)),
        path=ROOT + name,
        root_path="",
        origin=_LOCAL if around is None else around.origin,
        host=None if around is None else around.host,
        content_type="application/json",
        # Short enough to be compared: `serialize_bound_arguments` makes the body, whatever its length.
        content_length="0",
        is_forwarded=around is not None and around.is_forwarded,
    )


def _find_credentials(scope: Mapping[str, Any] | None) -> Headers:
    """Those of the HTTP request. A payment is read from the call alone, and never from a header."""
    if scope is None:
        return ()
    return decode_headers([pair for pair in scope["headers"] if pair[0].lower() in CREDENTIAL_HEADERS])


def encode_payment(payment: object) -> str:
    """Encode a payment as the `PAYMENT-SIGNATURE` header would be; "" for what is not a payment.

    The official clients send an object, or the text of one. An object has one encoding, however its keys
    are ordered: then a payment that comes again is recognized. Its nulls are left out, as x402 does in the
    header, because facilitators refuse them.
    """
    try:
        sent: object = json.loads(payment) if isinstance(payment, str) else payment
        return b64encode(_to_json(_without_nulls(sent))).decode() if isinstance(sent, dict) else ""
    except (ValueError, RecursionError):
        return ""


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _without_nulls(field) for name, field in fields.items() if field is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast("Sequence[Any]", value)]
    return value


def serialize_bound_arguments(params: Mapping[str, Any]) -> bytes:
    """Write down what a payment is bound to: the arguments, and what the client answered to questions.

    The answers to the last questions are in the call, those to earlier ones in its `requestState`.
    """
    bound: dict[str, Any] = {"arguments": params.get("arguments") or {}}
    if answers := params.get("inputResponses"):
        bound["inputResponses"] = answers
    if earlier := _find_earlier_answers(params.get("requestState")):
        bound["earlierResponses"] = earlier
    return _to_json(bound)


def _find_earlier_answers(state: Any) -> dict[str, Any]:
    """Find the answers that `Resolve(...)` of the SDK has written into a state, which the SDK has unsealed.

    No more of the state is bound: its form, and one that is made by hand, may differ each time.
    """
    try:
        outcomes: Any = json.loads(state)["outcomes"]
        return {key: (outcome["action"], outcome["data"]) for key, outcome in outcomes.items()}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return {}


def _to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
