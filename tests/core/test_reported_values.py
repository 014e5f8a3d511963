"""What a handler measured, as the wire wants it: exactly that number, or a clear refusal."""

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faregate.core.models import OfferRevision
from faregate.core.reported_values import format_value, format_values
from faregate.errors import InvalidUsage
from tests.core.flow_script import ACR

WIRE = re.compile(r"^(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,12})?$", re.ASCII)
"""As the specification has it (spec: Contract revision)."""
MOST = "9" * 18 + "." + "9" * 12
RULES = OfferRevision(ACR, "USDC", frozenset({"pages", "tokens", "words"}), frozenset({"pages", "tokens"}))


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (0, "0"),
        (12, "12"),
        (10**18 - 1, "9" * 18),
        ("0", "0"),
        ("0.5", "0.5"),
        ("1.500", "1.500"),
        (MOST, MOST),
        (Decimal(MOST), MOST),
        (Decimal(10), "10"),
        (Decimal("1E+2"), "100"),
        (Decimal("1E-12"), "0.000000000001"),
        (Decimal("1.50"), "1.5"),
        (Decimal("100.000"), "100"),
        (Decimal("1.5000000000000000"), "1.5"),
    ],
)
def test_a_number_is_reported_as_it_is(value: Any, wire: str) -> None:
    assert format_value("tokens", value) == wire


@given(st.decimals(min_value=0, max_value=10**18 - 1, places=12))
def test_a_decimal_is_reported_to_its_last_place(value: Decimal) -> None:
    wire = format_value("tokens", value)
    assert WIRE.fullmatch(wire)
    assert Decimal(wire) == value


@pytest.mark.parametrize(
    "value",
    [
        -1,
        10**18,
        "",
        "-1",
        "+1",
        "01",
        "1.",
        ".5",
        "1e5",
        "1,5",
        " 1",
        "1\n",
        "\u0661",
        "NaN",
        "1." + "0" * 13,
        Decimal(-1),
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1E-13"),
        Decimal(10**18),
    ],
)
def test_what_is_not_the_wires_decimal_is_refused_by_name(value: Any) -> None:
    with pytest.raises(
        InvalidUsage, match=r"(?s)^tokens: .* is not a non-negative decimal .* of at most 18 integer and 12"
    ):
        format_value("tokens", value)


@pytest.mark.parametrize(
    ("value", "kind"), [(1.5, "float"), (True, "bool"), (None, "NoneType"), (b"1", "bytes"), ([1], "list")]
)
def test_what_is_no_number_is_refused_by_its_type(value: Any, kind: str) -> None:
    with pytest.raises(InvalidUsage, match=f"tokens: report an int, a Decimal or a string, not {kind}"):
        format_value("tokens", value)


def test_a_refusal_does_not_repeat_all_of_a_long_value() -> None:
    with pytest.raises(InvalidUsage) as refused:
        format_value("tokens", "x" * 41)
    assert "x" * 40 in str(refused.value)
    assert "x" * 41 not in str(refused.value)


def test_values_are_sorted_by_name() -> None:
    given = {"words": 3, "tokens": 2, "pages": 1}
    assert format_values(given, RULES) == (("pages", "1"), ("tokens", "2"), ("words", "3"))


def test_a_name_that_is_unknown_is_named_with_those_that_are_known() -> None:
    with pytest.raises(InvalidUsage, match=r"^lines, zeros: not among .* \(pages, tokens, words\)$"):
        format_values({"pages": 1, "tokens": 2, "zeros": 0, "lines": 4}, RULES)
    with pytest.raises(InvalidUsage, match=r"^lines: not among this revision's values \(none\)$"):
        format_values({"lines": 4}, OfferRevision(ACR, "USDC", frozenset()))


def test_names_that_are_missing_are_named() -> None:
    with pytest.raises(InvalidUsage, match=r"^pages, tokens: required by this revision and not reported$"):
        format_values({"words": 1}, RULES)
    with pytest.raises(InvalidUsage, match=r"^pages: required"):
        format_values({"tokens": 1}, RULES)


@pytest.mark.parametrize(
    "value",
    [10**5000, Decimal("1E+999999999999"), Decimal("1E-999999999999"), Decimal("NaN")],
    ids=["5001 digits", "large", "small", "none"],
)
def test_a_number_that_nobody_could_write_out_is_refused_at_once(value: Any) -> None:
    with pytest.raises(InvalidUsage, match=r"^tokens: \S{3,20} is not a non-negative decimal"):
        format_value("tokens", value)
