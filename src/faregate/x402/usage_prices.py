"""Prices that follow what was used: `Usage` as a seller writes one, `UsagePrice` in atomic units. Pure.

The payer authorizes the maximum. The seller reports values when the work is done, and `compute_amount` says
what is settled of it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Any, Final, Literal

from faregate.errors import ConfigurationError
from faregate.x402.prices import AssetAmount, parse_price, split_price
from faregate.x402.tokens import DECIMALS, SettlementAsset

CalculationMode = Literal["fixed", "usage"]
LEAST: Final = 1
"""What a sum of zero settles, in atomic units: x402 knows no proof of a payment of nothing."""
_RATE: Final = re.compile(r"(?:0|[1-9][0-9]{0,29})(?:\.[0-9]{1,24})?", re.ASCII)
_VALUE_NAME: Final = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*", re.ASCII)
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class UsagePrice:
    """A price by use, in atomic units of its asset; `rates` are those per unit of a reported value.

    Raises `ValueError`, which says what to write.
    """

    maximum_atomic: int
    rates: Mapping[str, Decimal]
    fixed_atomic: int = 0
    least_atomic: int = LEAST

    def __post_init__(self) -> None:
        if not self.rates:
            raise ValueError("a price by use needs a rate")
        # `type(...) is`: a float or a bool would pass for a number.
        if not all(type(rate) is Decimal and rate.is_finite() and rate > 0 for rate in self.rates.values()):
            raise ValueError("a rate is a decimal above 0")
        if not 1 <= self.least_atomic <= self.maximum_atomic:
            raise ValueError("the least amount is at least one atomic unit, and at most the maximum")
        if not 0 <= self.fixed_atomic <= self.maximum_atomic:
            raise ValueError("the maximum is below the fixed part")


@dataclass(frozen=True, slots=True)
class UsedAmount:
    """What is settled of an authorization. `exceeded`: the sum was above the maximum, which is settled."""

    settled_atomic: int
    exceeded: bool = False


def compute_amount(price: UsagePrice, values: Mapping[str, str]) -> UsedAmount:
    """Compute what the reported values cost: the fixed part, and each value times its rate.

    Exact. The sum is rounded up once, to whole atomic units; it settles the least amount at least, and the
    maximum at most. A value that was not reported counts as zero; one without a rate costs nothing. `values`
    are decimal strings as the contract has them.
    """
    used = (Fraction(rate) * Fraction(values.get(name, "0")) for name, rate in price.rates.items())
    amount = max(ceil(price.fixed_atomic + sum(used)), price.least_atomic)
    return UsedAmount(min(amount, price.maximum_atomic), amount > price.maximum_atomic)


def parse_rate(text: str) -> Decimal:
    """Parse a rate in atomic units, such as `"12.5"`. Raises `ValueError`, which says what to write."""
    if not _RATE.fullmatch(text) or not text.strip("0."):
        raise ValueError(
            "a rate is a decimal string above 0 in atomic units, of 30 integer and 24 fraction digits at most"
        )
    return Decimal(text)


@dataclass(frozen=True)
class Usage:
    """A price by use, as it stands in code: amounts as text, such as `"0.50 USDC"`.

    `at_most` is what a payer authorizes. `rates` are per unit of each value that the handler reports, such as
    `{"output-tokens": "0.00001 USDC"}`; they may have more decimals than the asset. `fixed` is added to each
    use, and `at_least` is taken in any case. Raises `ConfigurationError`.
    """

    at_most: str
    rates: Mapping[str, str]
    fixed: str | None = None
    at_least: str | None = None
    price: UsagePrice = field(init=False, repr=False, compare=False)
    maximum: AssetAmount = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            maximum, price = _read_usage(self)
        except ValueError as error:
            raise ConfigurationError(f"Usage: {error}.") from None
        # Frozen for everybody else; a later change of the caller's dictionary must not change a price.
        object.__setattr__(self, "rates", MappingProxyType(dict(self.rates)))
        object.__setattr__(self, "price", price)
        object.__setattr__(self, "maximum", maximum)

    def __hash__(self) -> int:
        return hash((self.at_most, *sorted(self.rates.items()), self.fixed, self.at_least))

    def __str__(self) -> str:
        return f"up to {self.maximum}"

    @property
    def asset(self) -> SettlementAsset:
        return self.maximum.asset

    def to_fields(self) -> dict[str, Any]:
        """Return the arguments that make this price, as JSON has them."""
        bounds = {"fixed": self.fixed, "at_least": self.at_least}
        given = {name: text for name, text in bounds.items() if text is not None}
        return {"at_most": self.at_most, "rates": dict(self.rates), **given}


def _read_usage(usage: Usage) -> tuple[AssetAmount, UsagePrice]:
    maximum = _parse("at_most", usage.at_most)
    for name in usage.rates:
        if not is_value_name(name):
            raise ValueError(f"rates: {name!r} is no name of a value, such as 'output-tokens'")
    rates = {name: _parse_rate(f"rates[{name!r}]", text, maximum.asset) for name, text in usage.rates.items()}
    fixed = 0 if usage.fixed is None else _parse("fixed", usage.fixed, maximum.asset).atomic
    least = LEAST if usage.at_least is None else _parse("at_least", usage.at_least, maximum.asset).atomic
    return maximum, UsagePrice(maximum.atomic, rates, fixed, least)


def is_value_name(name: object) -> bool:
    """Return whether a reported value may have this name."""
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and bool(_VALUE_NAME.fullmatch(name))


def _parse(name: str, text: object, asset: SettlementAsset | None = None) -> AssetAmount:
    try:
        if not isinstance(text, str):
            raise ValueError("write it as text, such as '0.50 USDC': numbers of other kinds are rounded")
        amount = parse_price(text)
    except ValueError as error:
        raise ValueError(f"{name}={text!r}: {error}") from None
    _check_asset(name, amount.asset, asset)
    return amount


def _parse_rate(name: str, text: object, asset: SettlementAsset) -> Decimal:
    try:
        if not isinstance(text, str):
            raise ValueError("write it as text, such as '0.00001 USDC': numbers of other kinds are rounded")
        amount, given = split_price(text)
        # From text, and by no arithmetic, which would round to the digits of a context.
        atomic = format(Decimal(f"{amount}E{DECIMALS}"), "f")
        rate = parse_rate(atomic.rstrip("0").rstrip(".") if "." in atomic else atomic)
    except ValueError as error:
        raise ValueError(f"{name}={text!r}: {error}") from None
    _check_asset(name, given, asset)
    return rate


def _check_asset(name: str, given: SettlementAsset, asset: SettlementAsset | None) -> None:
    if asset is not None and given != asset:
        raise ValueError(f"{name} is in {given}, and at_most in {asset}: write all in one asset")
