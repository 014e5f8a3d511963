"""One emulator with sales of three days, shared by all tests of the seller's commands."""

import socket
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from faregate.emulator import TEST_KEY, Emulator, Wallet, transport
from faregate.emulator.clock import EmulatorClock
from faregate.emulator.server import run
from faregate.errors import PaymentRequired
from faregate.merchant.client import MerchantClient
from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    SucceededCompleteRequest,
)
from faregate.system import system_clock
from faregate.x402.tokens import SettlementAsset
from tests.support.processes import serving

NOW: Final = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAYS: Final = 3
KEYS: Final[tuple[tuple[str, SettlementAsset], ...]] = (
    ("daily_report", "USDC"),
    ("euro_report", "EURC"),
    ("text_summary", "USDC"),
)
SALES: Final = 18 * DAYS
"""More than a page of a table, of which the last on each day are open and failed."""


def sell(emulator: Emulator) -> None:
    """18 transactions a day: 16 succeed, one fails, one stays open. All are of one payer a day."""
    with MerchantClient(TEST_KEY, "http://emulator.invalid", transport=transport(emulator)) as client:
        for day in range(DAYS):
            emulator.clock.freeze(NOW - timedelta(days=DAYS - day))
            for number in range(18):
                _sell_one(client, emulator, number)
        emulator.clock.freeze(NOW)


def _sell_one(client: MerchantClient, emulator: Emulator, number: int) -> None:
    key, asset = KEYS[number % 3]
    revision_id = emulator.revision_id(key)
    request = AccessRequest(
        revision_id=revision_id,
        settlement_asset=asset,
        resource=AccessResource(url=f"https://api.example.com/{key}", mime_type="application/json"),
    )
    with pytest.raises(PaymentRequired) as asked:
        client.access(request)
    proof = Wallet(clock=emulator.clock).pay(asked.value.instructions or "")
    transaction_id = client.access(request, proof).transaction_id or ""
    if number == 16:
        failed = FailedCompleteRequest(revision_id=revision_id, outcome="failed", failure_code="work_failed")
        client.complete_transaction(transaction_id, failed, proof)
    elif number < 16:
        done = SucceededCompleteRequest(revision_id=revision_id, outcome="succeeded", values={})
        client.complete_transaction(transaction_id, done, proof)


def serve(listener: socket.socket) -> None:
    emulator = Emulator(clock=EmulatorClock(system_clock, frozen_at=NOW - timedelta(days=DAYS)), seed=1)
    sell(emulator)
    run(emulator, listener, control=False)


@pytest.fixture(scope="session")
def service() -> Generator[dict[str, str]]:
    """The settings of a seller who has sold."""
    process = serving(serve)
    yield {"FAREGATE_BASE_URL": f"http://127.0.0.1:{process.port}", "FAREGATE_API_KEY": TEST_KEY}
    process.kill()
