"""Prices as an application declares them: the price, and what its handler reports beside. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from faregate.x402.prices import AssetAmount, parse_price
from faregate.x402.usage_prices import Usage, is_value_name

Requirement = Literal["required", "optional"]
"""Whether a value must be reported."""
ReportedValues = tuple[tuple[str, Requirement], ...]
MOST_VALUES: Final = 100


@dataclass(frozen=True, slots=True)
class DeclaredPrice:
    """What a resource costs, and the values that are reported beside those with a rate."""

    price: AssetAmount | Usage
    values: ReportedValues = ()

    def to_fields(self) -> dict[str, Any]:
        """Return this as JSON has it; see `read_declared_price`."""
        price = self.price.to_fields() if isinstance(self.price, Usage) else str(self.price)
        return {"price": price, "values": dict(self.values)}


def read_declared_price(fields: Mapping[str, Any]) -> DeclaredPrice:
    """Read what `DeclaredPrice.to_fields` made. Raises `ValueError`."""
    written = fields["price"]
    price = parse_price(written) if isinstance(written, str) else Usage(**written)
    return DeclaredPrice(price, check_reported_values(fields["values"], ()))


def check_reported_values(values: object, rated: Iterable[str]) -> ReportedValues:
    """Check the values of a declaration; `rated` are those with a rate. Raises `ValueError`."""
    if not isinstance(values, Mapping):
        raise ValueError("write a name and 'required' or 'optional' for each value: {'rows': 'required'}")
    requirements = dict(cast("Mapping[object, Any]", values))
    if len(requirements) > MOST_VALUES:
        raise ValueError(f"a price has {MOST_VALUES} values at most")
    for name, requirement in requirements.items():
        if not is_value_name(name):
            raise ValueError(f"{name!r} is no name of a value, such as 'output-tokens'")
        if requirement not in get_args(Requirement):
            raise ValueError(f"{name!r} is {requirement!r}: write 'required' or 'optional'")
    named = cast("dict[str, Requirement]", requirements)
    if repeated := sorted(named.keys() & set(rated)):
        raise ValueError(f"{', '.join(repeated)}: what has a rate is always reported, and is left out here")
    return tuple(named.items())
