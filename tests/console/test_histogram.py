"""Outcomes over time: few intervals, however long it lasts, and nothing is lost when they widen."""

from datetime import UTC, datetime, timedelta

import pytest

from faregate.emulator.console.histogram import MAX_INTERVALS, Histogram

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_second_is_an_interval() -> None:
    histogram = Histogram()
    histogram.add(BEGIN, "USDC", 10_000)
    histogram.add(BEGIN + timedelta(seconds=0.9), "EURC", 20_000)
    histogram.add(BEGIN + timedelta(seconds=1), "USDC", None)
    first, second = histogram
    assert (first[0], first[1].succeeded, first[1].settled) == (
        BEGIN.timestamp(),
        2,
        {"USDC": 10_000, "EURC": 20_000},
    )
    assert (second[0], second[1].failed, second[1].settled) == (BEGIN.timestamp() + 1, 1, {})


@pytest.mark.parametrize("apart", [0.5, 7, 3600, 1_000_000])
def test_it_stays_bounded_and_keeps_every_outcome(apart: float) -> None:
    histogram = Histogram()
    for number in range(500):
        histogram.add(BEGIN + timedelta(seconds=apart * number), "USDC", None if number % 5 == 0 else number)
    intervals = list(histogram)
    assert len(intervals) <= MAX_INTERVALS
    assert sum(one.failed for _, one in intervals) == histogram.total.failed == 100
    assert sum(one.succeeded for _, one in intervals) == histogram.total.succeeded == 400
    total = sum(number for number in range(500) if number % 5)
    assert sum(one.settled.get("USDC", 0) for _, one in intervals) == histogram.total.settled["USDC"] == total
    assert [second for second, _ in intervals] == sorted(second for second, _ in intervals)


def test_a_tenant_that_jumps_back_is_still_counted() -> None:
    histogram = Histogram()
    histogram.add(BEGIN, "USDC", 1)
    histogram.add(BEGIN - timedelta(days=400), "USDC", 2)
    assert [one.settled["USDC"] for _, one in histogram] == [2, 1]
