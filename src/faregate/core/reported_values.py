"""The `Payment` that a handler receives, and the values that it reports with it. No floats.

The rules for the values are those of the revision (spec: Contract revision, Limits).
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, overload

from faregate.core.models import Headers, OfferRevision, header_values
from faregate.core.request_headers import PROOF
from faregate.errors import ConfigurationError, InvalidUsage
from faregate.x402.headers import find_amount

MAX_EXPONENT = 60
"""Digits before or after the point: more than any value may have, few enough to write out."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Values_contra = TypeVar("Values_contra", contravariant=True, default=Mapping[str, object])
else:  # the default is for type checkers alone, and typing_extensions would be one more import
    from typing import TypeVar

    Values_contra = TypeVar("Values_contra", contravariant=True)

_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,12})?", re.ASCII)


class Payment(Generic[Values_contra]):
    """The payment of one request, for its handler. `transaction_id` is None when access is free.

    `sells` is what this request is sold as, which matters where the request chooses among several offers.
    The money is taken only after the handler has answered; nothing here is proof of payment.
    `Payment[TextSummaryValues]` lets a type checker check the names that are reported, with a type from
    `faregate contracts --python`; a plain `Payment` takes any.
    """

    __slots__ = ("_headers", "sells", "transaction_id", "values")

    def __init__(self, transaction_id: str | None, sells: str = "", headers: Headers = ()) -> None:
        self.transaction_id = transaction_id
        self.sells = sells
        self.values: dict[str, str] = {}
        self._headers = headers

    @property
    def maximum_atomic(self) -> int | None:
        """What the payer has authorized, in atomic units of the asset: no more is ever taken.

        Where the price follows the use, work can stop before its values cost more. None when access is free.
        """
        # Read when it is asked for: most handlers sell at a fixed price.
        proofs = header_values(self._headers, PROOF)
        return find_amount(proofs[0].strip()) if self.transaction_id is not None and proofs else None

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:
        # FastAPI and MCP ask for it where a parameter is annotated with a bare `Payment` and nothing is sold.
        raise ConfigurationError(
            "A parameter is annotated with Payment, and nothing says what is sold. FastAPI: "
            "payment: Annotated[Payment, Depends(paid('text_summary'))]. "
            "MCP: @paid('text_summary') below @server.tool()."
        )

    @overload
    def report(
        self: "Payment[Mapping[str, object]]",
        values: Mapping[str, object] | None = None,
        /,
        **named: object,
    ) -> None: ...

    @overload
    def report(self, values: Values_contra, /) -> None: ...

    def report(self, values: Any = None, /, **named: object) -> None:
        """Report measured values by their names in the revision; a later report replaces an earlier.

        A value is an int, a Decimal or a decimal string, never a float. Raises `InvalidUsage`. Whether
        the names are the revision's is checked when the handler has answered.
        """
        reported: Mapping[str, object] = values or {}
        for name, value in {**reported, **named}.items():
            self.values[name] = format_value(name, value)


def format_values(values: Mapping[str, object], revision: OfferRevision) -> tuple[tuple[str, str], ...]:
    """Return the values as the wire has them, sorted by name.

    Raises `InvalidUsage` for an unknown name, a missing required one, or a value that is not a
    non-negative decimal of at most 18 integer and 12 fraction digits.
    """
    if not (values or revision.required):
        return ()
    unknown = values.keys() - revision.names
    if unknown:
        raise InvalidUsage(
            f"{_format_names(unknown)}: not among this revision's values ({_format_names(revision.names)})"
        )
    missing = revision.required - values.keys()
    if missing:
        raise InvalidUsage(f"{_format_names(missing)}: required by this revision and not reported")
    return tuple((name, format_value(name, values[name])) for name in sorted(values))


def format_value(name: str, value: object) -> str:
    """Return an int, a Decimal or a decimal string as the wire has it.

    Raises `InvalidUsage`, also for a float.
    """
    # `bool` is an `int` to Python: True would be reported as 1.
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise InvalidUsage(f"{name}: report an int, a Decimal or a string, not {type(value).__name__}")
    text = value if isinstance(value, str) else _format_decimal(Decimal(value))
    if not _DECIMAL.fullmatch(text):
        raise InvalidUsage(
            f"{name}: {text[:40]} is not a non-negative decimal without leading zeros, of at most 18 integer "
            "and 12 fraction digits"
        )
    return text


def _format_decimal(value: Decimal) -> str:
    """Without an exponent and without trailing zeros, which could push it over twelve places.

    A number far out of bounds stays short: a payer may have had a say in its exponent.
    """
    if not value.is_finite() or abs(value.adjusted()) > MAX_EXPONENT:
        return f"{value:.3E}"
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _format_names(names: set[str] | frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"
