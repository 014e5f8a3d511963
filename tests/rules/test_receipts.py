"""A completion says one of four statuses, and has a receipt if it succeeded and only then."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from faregate.rules.receipts import build_completion
from faregate.rules.records import SettlementRecord, Transaction


@dataclass
class _Known:
    status: str
    settled: SettlementRecord | None = None
    id: str = "txn_019b76daa8007000800dc64919961c3c"


DONE = SettlementRecord(datetime(2026, 1, 1, tzinfo=UTC), "0xab", "proof", "{}")


@pytest.mark.parametrize("status", ["settling", "reconciling", "failed"])
def test_what_has_not_succeeded_shows_its_status(status: str) -> None:
    found = build_completion(cast(Transaction, _Known(status)))
    assert (found.status, found.payment_response, found.receipt) == (status, None, None)


@pytest.mark.parametrize(
    "known",
    [
        _Known("authorized"),
        _Known("accepted"),
        _Known("succeeded"),
        _Known("settling", DONE),
        _Known("failed", DONE),
    ],
)
def test_anything_else_cannot_be_said(known: Any) -> None:
    with pytest.raises(ValueError, match="no completion may say"):
        build_completion(known)
