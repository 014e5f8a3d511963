"""Prices that a seller writes: `"0.05 USDC"`. Exact, without floats."""

import re
from dataclasses import dataclass
from typing import Final

from faregate.x402.tokens import DECIMALS, SettlementAsset, format_price

_PRICE: Final = re.compile(r"(?P<amount>\d{1,60}(?:\.\d{1,60})?) (?P<unit>[A-Z]{3,4})", re.ASCII)
_DOLLARS: Final = re.compile(r"\$(?P<amount>\d{1,60}(?:\.\d{1,60})?)", re.ASCII)
"""A price as the x402 package takes it."""
_ASSETS: Final[dict[str, SettlementAsset]] = {"USDC": "USDC", "USD": "USDC", "EURC": "EURC", "EUR": "EURC"}
"""A currency stands for the token that is worth as much."""
_MOST: Final = 10**30


@dataclass(frozen=True, slots=True)
class AssetAmount:
    """So many atomic units of an asset."""

    atomic: int
    asset: SettlementAsset

    def __str__(self) -> str:
        return format_price(self.atomic, self.asset)


def parse_price(text: str) -> AssetAmount:
    """Parse `"0.05 USDC"`, or `"0.05 USD"` for the same. Raises `ValueError`, which says what to write."""
    amount, asset = split_price(text)
    whole, _, fraction = amount.partition(".")
    if len(fraction.rstrip("0")) > DECIMALS:
        raise ValueError(f"{asset} has {DECIMALS} decimals: write no more")
    atomic = int(whole) * 10**DECIMALS + int(fraction[:DECIMALS].ljust(DECIMALS, "0") or "0")
    if atomic == 0:
        raise ValueError("a price is above 0: leave `paid` out where nothing is to be paid")
    if atomic >= _MOST:
        raise ValueError("that is more than the service takes")
    return AssetAmount(atomic, asset)


def split_price(text: str) -> tuple[str, SettlementAsset]:
    """Split `"0.05 USD"` into the number and the asset. Raises `ValueError`, which says what to write."""
    parts = _PRICE.fullmatch(text)
    if parts is None:
        dollars = _DOLLARS.fullmatch(text)
        example = f"{dollars['amount']} USDC" if dollars else "0.05 USDC"
        raise ValueError(f"write an amount and an asset, such as '{example}'")
    asset = _ASSETS.get(parts["unit"])
    if asset is None:
        raise ValueError(f"{parts['unit']} is no asset of the service: write USDC or EURC")
    return parts["amount"], asset
