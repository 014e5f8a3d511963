"""Prices by use: the amount is exact, within its bounds, and rounded up once."""

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faregate.errors import ConfigurationError
from faregate.x402.usage_prices import Usage, UsagePrice, UsedAmount, compute_amount, parse_rate

NAMES = ("input-tokens", "output-tokens", "pages")
_AMOUNTS = st.integers(0, 10**30 - 1)
_VALUES = st.builds(
    lambda whole, fraction: f"{whole}.{fraction}" if fraction else str(whole),
    st.integers(0, 10**18 - 1),
    st.text("0123456789", max_size=12),
)
_RATES = st.decimals(Decimal("1e-24"), 10**18, places=24) | st.integers(1, 10**6).map(Decimal)


@st.composite
def _prices(draw: st.DrawFn) -> UsagePrice:
    maximum = draw(_AMOUNTS.filter(bool))
    return UsagePrice(
        maximum,
        draw(st.dictionaries(st.sampled_from(NAMES), _RATES, min_size=1)),
        draw(st.integers(0, maximum)),
        draw(st.integers(1, maximum)),
    )


_REPORTS = st.dictionaries(st.sampled_from((*NAMES, "unpriced")), _VALUES)


@given(_prices(), _REPORTS)
def test_the_amount_is_the_exact_sum_within_its_bounds(price: UsagePrice, values: dict[str, str]) -> None:
    with localcontext(prec=200) as context:
        context.clear_flags()
        exact = Decimal(price.fixed_atomic)
        for name, rate in price.rates.items():
            exact += rate * Decimal(values.get(name, "0"))
        rounded = int(exact.to_integral_value("ROUND_CEILING"))
        within = max(rounded, price.least_atomic)
        assert compute_amount(price, values) == UsedAmount(
            min(within, price.maximum_atomic), exact > price.maximum_atomic
        )


@given(_prices(), _REPORTS, st.sampled_from(NAMES), st.integers(0, 10**9))
def test_more_use_never_costs_less(price: UsagePrice, values: dict[str, str], name: str, more: int) -> None:
    whole, _, fraction = values.get(name, "0").partition(".")
    larger = {**values, name: f"{int(whole) + more}{'.' if fraction else ''}{fraction}"}
    assert compute_amount(price, values).settled_atomic <= compute_amount(price, larger).settled_atomic


@given(_prices(), _REPORTS)
def test_the_order_of_values_and_rates_changes_nothing(price: UsagePrice, values: dict[str, str]) -> None:
    turned = UsagePrice(
        price.maximum_atomic,
        dict(reversed(list(price.rates.items()))),
        price.fixed_atomic,
        price.least_atomic,
    )
    assert compute_amount(price, values) == compute_amount(turned, dict(reversed(list(values.items()))))


TENTH = UsagePrice(500_000, {"output-tokens": Decimal("0.1"), "pages": Decimal("0.1")})


@pytest.mark.parametrize(
    ("values", "settled"),
    [
        ({}, 1),
        ({"output-tokens": "0"}, 1),
        ({"output-tokens": "1"}, 1),
        ({"output-tokens": "10"}, 1),
        ({"output-tokens": "10.000000000001"}, 2),
        # Rounded once: each of these alone would be rounded up.
        ({"output-tokens": "5", "pages": "5"}, 1),
        ({"output-tokens": "123000"}, 12_300),
        ({"output-tokens": "5000000"}, 500_000),
        ({"unpriced": "7"}, 1),
    ],
)
def test_amounts(values: dict[str, str], settled: int) -> None:
    assert compute_amount(TENTH, values) == UsedAmount(settled)


def test_a_sum_above_the_maximum_settles_the_maximum_and_says_so() -> None:
    assert compute_amount(TENTH, {"output-tokens": "5000000.1"}) == UsedAmount(500_000, exceeded=True)


def test_the_fixed_part_is_added_and_the_least_amount_is_a_floor() -> None:
    price = UsagePrice(500_000, {"pages": Decimal(1000)}, fixed_atomic=200, least_atomic=2000)
    assert compute_amount(price, {}).settled_atomic == 2000
    assert compute_amount(price, {"pages": "1"}).settled_atomic == 2000
    assert compute_amount(price, {"pages": "3"}).settled_atomic == 3200


def test_amounts_do_not_depend_on_the_decimal_context() -> None:
    price = UsagePrice(10**29, {"pages": Decimal("123456789.123456789123456789")})
    with localcontext(prec=3):
        assert compute_amount(price, {"pages": "999999999999999999.5"}).settled_atomic == (
            123456789123456789061728395
        )


def test_a_price_that_a_seller_writes() -> None:
    rates = {"output-tokens": "0.00001 USDC", "pages": "0.00000001 USD"}
    usage = Usage(at_most="0.50 USDC", rates=rates, fixed="0.001 USDC", at_least="0.0005 USDC")
    assert usage.price == UsagePrice(
        500_000, {"output-tokens": Decimal(10), "pages": Decimal("0.01")}, 1000, 500
    )
    assert str(usage) == "up to 0.50 USDC"
    longest = "p" * 100
    plain = Usage(at_most="0.50 USDC", rates={longest: "0.01 USDC"})
    assert plain.price == UsagePrice(500_000, {longest: Decimal(10_000)}, fixed_atomic=0, least_atomic=1)
    rates["output-tokens"] = "1 USDC"
    assert usage.rates["output-tokens"] == "0.00001 USDC"


def test_equal_prices_have_equal_hashes() -> None:
    one, two = (Usage(at_most="0.50 USDC", rates={"pages": "0.01 USDC"}) for _ in range(2))
    assert (one, hash(one)) == (two, hash(two))
    assert one != Usage(at_most="0.50 USDC", rates={"pages": "0.02 USDC"})


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"at_most": "0.50"}, "at_most='0.50': write an amount and an asset"),
        ({"at_most": 0.5}, "at_most=0.5: write it as text"),
        ({"at_most": "1000000000000000000000000 USDC"}, "more than the service takes"),
        ({"rates": {}}, "needs a rate"),
        ({"rates": {"Pages": "0.01 USDC"}}, "'Pages' is no name of a value"),
        ({"rates": {"p" * 101: "0.01 USDC"}}, "is no name of a value"),
        ({"rates": {"pages": "0.01 EURC"}}, r"rates\['pages'\] is in EURC, and at_most in USDC"),
        ({"rates": {"pages": "0 USDC"}}, "a decimal string above 0"),
        ({"rates": {"pages": 0.01}}, "write it as text"),
        ({"fixed": "0.51 USDC"}, "the maximum is below the fixed part"),
        ({"at_least": "0.51 USDC"}, "at most the maximum"),
        ({"fixed": "0.01 EURC"}, "fixed is in EURC, and at_most in USDC"),
        ({"at_least": "0.01 EURC"}, "at_least is in EURC, and at_most in USDC"),
    ],
)
def test_faults_of_a_price_that_a_seller_writes(arguments: dict[str, object], fault: str) -> None:
    given: dict[str, object] = {"at_most": "0.50 USDC", "rates": {"pages": "0.01 USDC"}, **arguments}
    with pytest.raises(ConfigurationError, match=fault):
        Usage(**given)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("text", ["0", "0.0", "-1", "1e3", "01", "1.", "", "٣", "1" * 31, f"0.{'1' * 25}"])
def test_a_rate_is_a_decimal_string_above_zero(text: str) -> None:
    with pytest.raises(ValueError, match="decimal string above 0"):
        parse_rate(text)


@pytest.mark.parametrize("rate", [Decimal("NaN"), Decimal("Infinity"), Decimal(0), Decimal(-1), 1, 0.5])
def test_a_rate_is_never_a_float(rate: object) -> None:
    with pytest.raises(ValueError, match="decimal above 0"):
        UsagePrice(10, {"pages": rate})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
