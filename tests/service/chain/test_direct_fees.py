"""What a transfer of the gas account may cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faregate.service.chain.direct.eip1559 import Fees
from faregate.service.chain.direct.fees import (
    ETHER,
    GWEI,
    FeeMarket,
    GasPolicy,
    choose_fees,
    format_ether,
    limit_gas,
    raise_fees,
)

POLICY = GasPolicy(max_fee=5 * GWEI, max_gas=150_000)
wei = st.integers(0, 10**12)
markets = st.builds(FeeMarket, wei, wei)


def test_a_base_fee_may_double_before_a_transfer_waits() -> None:
    assert choose_fees(FeeMarket(GWEI, 1000), POLICY) == Fees(2 * GWEI + 1000, 1000)


def test_a_base_fee_above_the_limit_is_not_paid() -> None:
    assert choose_fees(FeeMarket(5 * GWEI, 1000), POLICY) == Fees(5 * GWEI, 1000)
    assert choose_fees(FeeMarket(5 * GWEI + 1, 0), POLICY) is None


@given(markets)
def test_no_fee_exceeds_the_limit(market: FeeMarket) -> None:
    fees = choose_fees(market, POLICY)
    assert fees is None or 0 <= fees.priority <= fees.maximum <= POLICY.max_fee


@given(markets, wei, wei)
def test_a_replacement_is_one_that_nodes_take(market: FeeMarket, maximum: int, priority: int) -> None:
    waiting = Fees(maximum, min(priority, maximum))
    raised = raise_fees(waiting, market, POLICY)
    if raised is not None:
        assert 10 * raised.maximum >= 11 * waiting.maximum
        assert 10 * raised.priority >= 11 * waiting.priority
        assert raised.priority <= raised.maximum <= POLICY.max_fee


@pytest.mark.parametrize(
    ("waiting", "raised"),
    [
        (Fees(100, 10), Fees(125, 13)),
        (Fees(1, 1), Fees(2, 2)),
        (Fees(4 * GWEI, 8), Fees(5 * GWEI, 10)),
        (Fees(5 * GWEI, 8), None),
        (Fees(4_600_000_000, 8), None),
    ],
    ids=str,
)
def test_a_replacement_pays_a_quarter_more(waiting: Fees, raised: Fees | None) -> None:
    assert raise_fees(waiting, FeeMarket(0, 0), POLICY) == raised


def test_a_replacement_of_a_transfer_without_a_tip_has_one() -> None:
    raised = raise_fees(Fees(4 * GWEI, 0), FeeMarket(GWEI, 0), GasPolicy(max_fee=100 * GWEI))
    assert raised is not None
    assert raised.priority == 1


def test_a_replacement_follows_the_market() -> None:
    assert raise_fees(Fees(100, 10), FeeMarket(GWEI, 50), POLICY) == Fees(2 * GWEI + 50, 50)


@pytest.mark.parametrize(
    ("estimate", "limit"), [(80_000, 100_000), (140_000, 150_000), (150_000, 150_000), (150_001, None)]
)
def test_gas_is_limited(estimate: int, limit: int | None) -> None:
    assert limit_gas(estimate, POLICY) == limit


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (ETHER, "1"), (ETHER // 1000, "0.001"), (20 * ETHER, "20"), (10**9, "0.000000001")],
)
def test_ether_is_written_for_people(amount: int, text: str) -> None:
    assert format_ether(amount) == text
