"""How a paid operation is documented: its proof, its answers, what it sells. Works on the plain schema.

A paid operation is marked by a security requirement of a scheme named `MARK` and what is sold, which
`faregate.fastapi.paid` declares; the scheme carries the `x-payment-info`. The mark is taken away: a proof
of payment is not authentication (spec: Authentication). An operation below a paid prefix needs no mark.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
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
    """The description of an offer, without a call. Only the service knows the price: it is in its 402s."""
    info: Schema = {"protocols": [{"x402": {}}], "sells": sold.sells}
    if isinstance(sold, OfferChoice):
        return {**info, "among": [_describe(one) for one in sold.among]}
    return info if sold.asset is None else {**info, "asset": sold.asset}


def _describe(one: Offer) -> Schema:
    described = {"sells": one.sells, "asset": one.asset, "description": one.description}
    return {name: value for name, value in described.items() if value}


def add_known(info: Schema, asset: str | None, price: Price | None) -> None:
    """Add to the description of an offer what the service has told of it."""
    if asset is not None:
        info.setdefault("asset", asset)
    _announce(info, price)


def with_payments(
    schema: Schema,
    find_prefix_offer: Callable[[str], Offer | None] = lambda _path: None,
    asset: Callable[[str], str | None] = lambda _sells: None,
    price: Callable[[str], Price | None] = lambda _sells: None,
) -> Schema:
    """The schema, its paid operations completed in place. Doing it again adds what has become known.

    `find_prefix_offer` gives what a whole prefix sells, for a path of the schema; `asset` and `price` those
    of what is sold, as far as the service has told them.
    """
    schemes = schema.get("components", {}).get("securitySchemes", {})
    for path, operation in _operations(schema):
        info = _take_mark(operation, schemes)
        if info is None and (sold := find_prefix_offer(path)) is not None:
            info = payment_info(sold)
        if info is not None and not _is_documented(operation):
            _document(operation, _components(schema))
        told = operation.get(INFO, {})
        if info is not None or "sells" in told:
            told = operation[INFO] = {**(info or {}), **told}
            for one in told.get("among", (told,)):
                add_known(one, asset(one["sells"]), price(one["sells"]))
    _forget(schema, schemes)
    return schema


class _AnnouncedPrice(Schema):
    """A price of ours in a schema, which the framework keeps: the next one replaces it, and no seller's."""


def _announce(info: Schema, price: Price | None) -> None:
    """Add the price that was asked last, if it is an amount of a currency; a seller's own stands."""
    if not isinstance(info.get("price", _NO_PRICE), _AnnouncedPrice):
        return
    if info.pop("price", None) is not None:
        info.pop("network", None)
    currency = None if price is None else _CURRENCIES.get(price.asset)
    if price is not None and currency is not None and price.scheme == "exact":
        info["price"] = _AnnouncedPrice(mode="fixed", currency=currency, amount=price.amount)
        info["network"] = price.network


_CURRENCIES = {"USDC": "USD", "EURC": "EUR"}
_NO_PRICE = _AnnouncedPrice()


def _operations(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for path, item in schema.get("paths", {}).items():
        yield from ((path, item[method]) for method in _METHODS if method in item)


def _take_mark(operation: Schema, schemes: Schema) -> Schema | None:
    """Takes the mark of a paid operation away, and gives what it said."""
    asked: list[Schema] = operation.get("security", [])
    marks = [name for one in asked for name in one if name.startswith(MARK)]
    if not marks:
        return None
    others = [{name: scopes for name, scopes in one.items() if name not in marks} for one in asked]
    operation["security"] = [other for other, one in zip(others, asked, strict=True) if other or not one]
    if not operation["security"]:
        del operation["security"]
    info: Schema = schemes[marks[0]][INFO]
    return info


def _forget(schema: Schema, schemes: Schema) -> None:
    """The marks' own schemes, once nothing refers to them."""
    marks = [name for name in schemes if name.startswith(MARK)]
    for name in marks:
        del schemes[name]
    if marks and not schemes:
        del schema["components"]["securitySchemes"]


def _components(schema: Schema) -> Callable[[str, str, Schema], Schema]:
    """Defines something once, under a name that is not the seller's own; gives the reference to it."""
    components = schema.setdefault("components", {})

    def define(kind: str, name: str, what: Schema) -> Schema:
        kept = components.setdefault(kind, {})
        # Copy it: sellers may change their schema, and these values are shared.
        while kept.setdefault(name, deepcopy(what)) != what:
            name = f"Faregate{name}"
        return {"$ref": f"#/components/{kind}/{name}"}

    return define


def _is_documented(operation: Schema) -> bool:
    return any("PaymentSignature" in one.get("$ref", "") for one in operation.get("parameters", ()))


def _document(operation: Schema, define: Callable[[str, str, Schema], Schema]) -> None:
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
