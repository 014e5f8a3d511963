"""A snapshot stays as it was first shown, although time passes while a call is on its way."""

from datetime import UTC, datetime, timedelta

import pytest

from faregate.emulator import Emulator, SettlementRule

from .load import Seller, Trusting


class Running:
    """A clock that goes on by a second whenever somebody looks at it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.mark.parametrize("seconds", range(1, 16))
def test_what_falls_due_within_a_call_is_in_its_snapshot(seconds: int) -> None:
    seller = Seller(Emulator(clock=Running(), ledger=Trusting()))
    seller.emulator.settle_after("text_summary", SettlementRule(after_seconds=seconds))
    seller.complete(seller.authorize())
    first = seller.listed("/transactions")
    again = seller.listed(f"/transactions?as_of={first['as_of']}")
    assert again["items"] == first["items"]
