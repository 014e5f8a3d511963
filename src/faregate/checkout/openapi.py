"""How a paid operation is documented: its proof, its answers, what it sells. Works on the plain schema.

A paid operation is marked by a security requirement of a scheme named `MARK` and what is sold, which
`faregate.fastapi.paid` declares; the scheme carries the `x-payment-info`. The mark is taken away: a proof
of payment is not authentication (spec: Authentication). An operation below a paid prefix needs no mark.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from decimal import Decimal
from typing import Any

from faregate.core.models import Offer, OfferChoice
from faregate.core.terms import Price

MARK = "PAYMENT-SIGNATURE."
INFO = "x-payment-info"

Schema = dict[str, Any]

_METHODS = ("get", "put", "post", "delete", "patch", "head", "trace")
_STRING = {"type": "string"}
_RETRY = {"description": "Seconds to wait before coming back.", "schema": _STRING}
_INSTRUCTIONS = {"description": "Base64 of the x402 version 2 payment instructions.", "schema": _STRING}

_PROBLEM: Schema = {
    "title": "PaymentProblem",
    "description": "Why the result was not given. Programs read `code`, people read `message`.",
    "type": "object",
    "required": ["code", "message"],
    "properties": {
        "code": {**_STRING, "title": "Code"},
        "message": {**_STRING, "title": "Message"},
        "transaction_id": {**_STRING, "title": "Transaction Id", "description": "There once one exists."},
    },
}
_SIGNATURE: Schema = {
    "name": "PAYMENT-SIGNATURE",
    "in": "header",
    "required": False,
    "description": "Base64 proof of an x402 version 2 payment, made by the payer.",
    "schema": _STRING,
}
_PAYMENT_RESPONSE: Schema = {"description": "Base64 proof of the settled payment.", "schema": _STRING}
_ANSWERS: dict[str, tuple[str, str, Schema]] = {
    "202": (
        "PaymentPending",
        "The payment is still settling. Repeat the request with the same payment; do not pay again.",
        {"Retry-After": _RETRY},
    ),
    "402": (
        "PaymentRequired",
        "Payment required. Pay as the instructions say and repeat the request.",
        {"PAYMENT-REQUIRED": _INSTRUCTIONS, "Retry-After": _RETRY},
    ),
    "409": (
        "PaymentConflict",
        "This payment is being served at this moment, or was used already.",
        {"Retry-After": _RETRY},
    ),
    "503": (
        "PaymentUnconfirmed",
        "The payment could not be confirmed. Repeat the request with the same payment; do not pay again.",
        {"Retry-After": _RETRY},
    ),
}


def payment_info(sold: Offer) -> Schema:
    """Describe an offer without a call to the service. The price is missing: only a 402 shows it."""
    info: Schema = {"protocols": [{"x402": {}}], "sells": sold.sells}
    if isinstance(sold, OfferChoice):
        return {**info, "among": [_describe(alternative) for alternative in sold.among]}
    return info if sold.asset is None else {**info, "asset": sold.asset}


def _describe(offer: Offer) -> Schema:
    fields = {"sells": offer.sells, "asset": offer.asset, "description": offer.description}
    return {name: value for name, value in fields.items() if value}


FindAsset = Callable[[str], str | None]
FindPrice = Callable[[str], Price | None]


def add_known(info: Schema, find_asset: FindAsset, find_price: FindPrice) -> None:
    """Add the asset and the price that the service has reported to the description of an offer."""
    for offer in info.get("among", (info,)):
        if (asset := find_asset(offer["sells"])) is not None:
            offer.setdefault("asset", asset)
        _set_price(offer, _announce(find_price(offer["sells"])))
    if "among" in info:
        _set_price(info, _announce_range([offer.get("price") for offer in info["among"]]))


def with_payments(
    schema: Schema,
    find_prefix_offer: Callable[[str], Offer | None] = lambda _path: None,
    asset: FindAsset = lambda _sells: None,
    price: FindPrice = lambda _sells: None,
) -> Schema:
    """Complete the paid operations of a schema in place. Another call adds what has become known since.

    `find_prefix_offer` gives what a whole prefix sells, for a path of the schema; `asset` and `price` those
    of what is sold, as far as the service has reported them.
    """
    schemes = schema.get("components", {}).get("securitySchemes", {})
    for path, operation in _list_operations(schema):
        info = _take_mark(operation, schemes)
        if info is None and (sold := find_prefix_offer(path)) is not None:
            info = payment_info(sold)
        shown = operation.get(INFO, {})
        if (info is not None or "sells" in shown) and not _is_documented(operation):
            _add_documentation(operation, _make_define(schema))
        if info is not None or "sells" in shown:
            shown = operation[INFO] = {**(info or {}), **shown}
            add_known(shown, asset, price)
    _remove_mark_schemes(schema, schemes)
    return schema


class _AnnouncedPrice(Schema):
    """A price that this module added to a schema. The framework keeps the schema, and a later price replaces
    this one; a price that the seller wrote stays."""


def _set_price(info: Schema, announced: Schema | None) -> None:
    """Add the price that was asked last, and its network; a price of the seller's stays."""
    if not isinstance(info.get("price", _NO_PRICE), _AnnouncedPrice):
        return
    if info.pop("price", None) is not None:
        info.pop("network", None)
    info |= announced or {}


def _announce(price: Price | None) -> Schema | None:
    """Announce an amount of a currency: by use it is the most that is charged. None of anything else."""
    currency = None if price is None else _CURRENCIES.get(price.asset)
    if price is None or currency is None or price.scheme not in ("exact", "upto"):
        return None
    if price.scheme == "upto":
        shown = _AnnouncedPrice(mode="dynamic", currency=currency, min="0", max=price.amount)
    else:
        shown = _AnnouncedPrice(mode="fixed", currency=currency, amount=price.amount)
    return {"price": shown, "network": price.network}


def _announce_range(prices: list[Any]) -> Schema | None:
    """Announce the prices of a choice, lowest and highest; None if one is not known, or currencies differ."""
    if not all(isinstance(price, _AnnouncedPrice) for price in prices):
        return None
    if len({price["currency"] for price in prices}) != 1:
        return None
    lowest = min((price.get("amount", price.get("min")) for price in prices), key=Decimal)
    highest = max((price.get("amount", price.get("max")) for price in prices), key=Decimal)
    shown = _AnnouncedPrice(mode="dynamic", currency=prices[0]["currency"], min=lowest, max=highest)
    return {"price": shown}


_CURRENCIES = {"USDC": "USD", "EURC": "EUR"}
_NO_PRICE = _AnnouncedPrice()


def _list_operations(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for path, item in schema.get("paths", {}).items():
        yield from ((path, item[method]) for method in _METHODS if method in item)


def _take_mark(operation: Schema, schemes: Schema) -> Schema | None:
    """Remove the mark of a paid operation, and return what it said."""
    requirements: list[Schema] = operation.get("security", [])
    marks = [name for requirement in requirements for name in requirement if name.startswith(MARK)]
    if not marks:
        return None
    unmarked = [
        {name: scopes for name, scopes in requirement.items() if name not in marks}
        for requirement in requirements
    ]
    # An empty requirement of the seller's stays: it makes the login optional.
    operation["security"] = [
        rest for rest, requirement in zip(unmarked, requirements, strict=True) if rest or not requirement
    ]
    if not operation["security"]:
        del operation["security"]
    info: Schema = schemes[marks[0]][INFO]
    return info


def _remove_mark_schemes(schema: Schema, schemes: Schema) -> None:
    """Remove the schemes of the marks, once no operation refers to them."""
    marks = [name for name in schemes if name.startswith(MARK)]
    for name in marks:
        del schemes[name]
    if marks and not schemes:
        del schema["components"]["securitySchemes"]


def _make_define(schema: Schema) -> Callable[[str, str, Schema], Schema]:
    """Return a function that defines a component once, under a free name, and returns the reference to it."""
    components = schema.setdefault("components", {})

    def define(kind: str, name: str, component: Schema) -> Schema:
        defined = components.setdefault(kind, {})
        # Copy it: sellers may change their schema, and these values are shared.
        while defined.setdefault(name, deepcopy(component)) != component:
            name = f"Faregate{name}"
        return {"$ref": f"#/components/{kind}/{name}"}

    return define


def _is_documented(operation: Schema) -> bool:
    return any("PaymentSignature" in item.get("$ref", "") for item in operation.get("parameters", ()))


def _add_documentation(operation: Schema, define: Callable[[str, str, Schema], Schema]) -> None:
    operation.setdefault("parameters", []).append(define("parameters", "PaymentSignature", _SIGNATURE))
    responses = operation.setdefault("responses", {})
    payment_response = define("headers", "PaymentResponse", _PAYMENT_RESPONSE)
    for status, response in responses.items():
        if status.startswith("2") and "$ref" not in response:
            response.setdefault("headers", {}).setdefault("PAYMENT-RESPONSE", payment_response)
    problem = define("schemas", "PaymentProblem", _PROBLEM)
    content = {"application/json": {"schema": problem}}
    for status, (name, description, headers) in _ANSWERS.items():
        answer = {"description": description, "headers": headers, "content": content}
        # A response that the seller has described stays as it is.
        if status not in responses:
            responses[status] = define("responses", name, answer)
