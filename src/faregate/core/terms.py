"""What a 402 tells a payer, as values: the price, what is sold, and why. Pure.

Read from the service's instructions, which are x402 objects. They are relayed unchanged whatever can be read
of them here.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from faregate.core.models import Response
from faregate.x402.instructions import parse_json
from faregate.x402.tokens import CHAINS, TOKENS, Token, format_amount

_NETWORKS = {"eip155:8453": "Base", "eip155:84532": "Base Sepolia, a test network"}
_MAX_INSTRUCTIONS = 64 * 1024
_MAX_DIGITS = 78
"""Of an amount: a token's amounts are of 256 bits."""


@dataclass(frozen=True, slots=True)
class Price:
    """One way to pay. `amount` is in units of `asset`, exact: `"0.05"`, `"USDC"`.

    Of an asset that faregate does not know, `asset` is the address and `amount` counts its atomic units.
    `network` is the identifier (`eip155:8453`), `network_name` a name for people. `atomic` is what is signed.
    `scheme` is that of x402: with `exact` it is just this amount, with `upto` at most so much.
    """

    amount: str
    asset: str
    network: str
    network_name: str
    pay_to: str
    atomic: str
    scheme: str = "exact"

    @property
    def is_live(self) -> bool:
        """Whether this is real money: its network is not a known test network."""
        return self.network != f"eip155:{CHAINS['test']}"

    @property
    def text(self) -> str:
        """The price for people: `0.05 USDC`, or `up to 0.50 USDC` where it follows the use."""
        most = "" if self.scheme == "exact" else "up to "
        return f"{most}{self.amount} {self.asset}"

    def __str__(self) -> str:
        return f"{self.text} on {self.network_name}"


@dataclass(frozen=True, slots=True)
class PaymentTerms:
    """What a payer reads when nothing is delivered: the prices with a 402, the reason with another status.

    `url` is the address of the request, public and with its query. `description` and `mime_type` are the
    offer's. `prices` is empty where the instructions cannot be read, and with another status than 402.
    `code` and `message` are those of the JSON body; `transaction_id` is there once one exists.
    """

    status: int
    code: str
    message: str
    method: str
    url: str
    description: str = ""
    mime_type: str = ""
    prices: tuple[Price, ...] = ()
    transaction_id: str | None = None


def read_terms(response: Response, method: str, url: str, description: str, mime_type: str) -> PaymentTerms:
    """Read the terms of a response that the paywall made or relays. Never raises for what it holds."""
    body = _read_object(response.body)
    instructions = response.first("payment-required")
    return PaymentTerms(
        response.status,
        _get_text(body, "code"),
        _get_text(body, "message"),
        method,
        url,
        description,
        mime_type,
        () if instructions is None else read_prices(instructions),
        _get_text(body, "transaction_id") or None,
    )


def read_prices(instructions: str) -> tuple[Price, ...]:
    """Read the ways to pay of a `PAYMENT-REQUIRED` header; none of one that cannot be read."""
    if len(instructions) > _MAX_INSTRUCTIONS:
        return ()
    try:
        entries: Any = _read_object(base64.b64decode(instructions, validate=True)).get("accepts")
    except ValueError:
        return ()
    if not isinstance(entries, list):
        return ()
    read = map(_read_price, cast("list[object]", entries))
    return tuple(price for price in read if price is not None)


def _read_price(entry: object) -> Price | None:
    if not isinstance(entry, dict):
        return None
    named = cast("dict[str, Any]", entry)
    atomic, asset, network, pay_to, scheme = (
        _get_text(named, name) for name in ("amount", "asset", "network", "payTo", "scheme")
    )
    if not (asset and network and atomic.isascii() and atomic.isdigit() and len(atomic) <= _MAX_DIGITS):
        return None
    token = _find_token(network, asset)
    if token is None:
        unit = f"atomic units of {asset}"
        return Price(atomic, unit, network, _name_network(network), pay_to, atomic, scheme)
    amount = format_amount(int(atomic))
    return Price(amount, token.symbol, network, _name_network(network), pay_to, atomic, scheme)


def _find_token(network: str, asset: str) -> Token | None:
    """By its published address, never by the name that the instructions give it."""
    tokens = (token for token in TOKENS.values() if token.network == network)
    return next((token for token in tokens if token.address.lower() == asset.lower()), None)


def _name_network(network: str) -> str:
    return _NETWORKS.get(network, network)


def _read_object(text: bytes) -> Mapping[str, Any]:
    try:
        value = parse_json(text)
    # JSON may be nested deeper than the parser goes (`RecursionError`).
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _get_text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def write_body(terms: PaymentTerms, shaped: Mapping[str, object]) -> bytes:
    """Write a JSON body of the seller's: programs find `code` and `message` in it whatever it holds."""
    fields: dict[str, object] = {"code": terms.code, "message": terms.message}
    if terms.transaction_id is not None:
        fields["transaction_id"] = terms.transaction_id
    return json.dumps({**fields, **shaped}).encode()
